"""Short programs that are given as text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_TESTS = Path(__file__).parents[1]


def run_text(text: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """
    Run a program in a new interpreter; it may import ``support``.

    Args:
        text: The program.
        check: Whether it must succeed.
    """
    path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert not check or done.returncode == 0, done.stderr
    return done
