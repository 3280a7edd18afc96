"""What is said to the person at the terminal, apart from the data."""

from __future__ import annotations

import sys
from typing import Final

from latspan._shown import printable

__all__ = ["say"]


_LONGEST: Final = 4_000


def say(line: str) -> None:
    """Print a line to stderr, at once: stdout may be a file or a pipe of its own pace."""
    print(printable(line, longest=_LONGEST), file=sys.stderr, flush=True)
