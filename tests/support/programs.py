"""Programs that tests run as a user would: in a process of their own, with a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["run_program"]

_PROGRAMS: Final = Path(__file__).parents[1] / "behaviour" / "programs"
_DEADLINE_S: Final = 60
_WARNINGS: Final = (
    "-Werror",
    # urllib3 drops pooled connections without closing them when an exporter shuts down.
    "-Wignore::ResourceWarning",
)


def run_program(name: str, *arguments: str, **variables: str) -> str:
    """
    Run ``tests/behaviour/programs/<name>.py`` to its end.

    Args:
        name: The program.
        arguments: Its command line.
        variables: Environment variables, in place of any ``OTEL_*`` and ``LATSPAN_*`` of ours.

    Returns:
        What it printed; it must have ended well, and said nothing on standard error.
    """
    environment = {
        variable: value
        for variable, value in os.environ.items()
        if not variable.startswith(("OTEL_", "LATSPAN_"))
    }
    done = subprocess.run(
        [sys.executable, *_WARNINGS, str(_PROGRAMS / f"{name}.py"), *arguments],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
