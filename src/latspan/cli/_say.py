"""What is said to the person at the terminal, apart from the data."""

from __future__ import annotations

import sys

__all__ = ["say"]


def say(line: str) -> None:
    """Print a line to stderr, at once: stdout may be a file or a pipe of its own pace."""
    print(line, file=sys.stderr, flush=True)
