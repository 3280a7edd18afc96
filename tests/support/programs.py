"""Programs that tests run as a user would: in a process of their own, with a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["PROGRAMS", "run_program", "serving"]

PROGRAMS: Final = Path(__file__).parents[1] / "behaviour" / "programs"
"""Where they lie."""

_DEADLINE_S: Final = 60
_WARNINGS: Final = (
    "-Werror",
    # urllib3 drops pooled connections without closing them when an exporter shuts down.
    "-Wignore::ResourceWarning",
)


def run_program(name: str, *arguments: str, under: Sequence[str] = (), **variables: str) -> str:
    """
    Run ``tests/behaviour/programs/<name>.py`` to its end.

    Args:
        name: The program.
        arguments: Its command line.
        under: A command that runs it, and its options.
        variables: Environment variables, in place of any ``OTEL_*`` and ``LATSPAN_*`` of ours.

    Returns:
        What it printed; it must have ended well, and said nothing on standard error.
    """
    done = subprocess.run(
        [*under, sys.executable, *_WARNINGS, str(PROGRAMS / f"{name}.py"), *arguments],
        env=_environment(variables),
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@contextmanager
def serving(log: Path, *arguments: str, **variables: str) -> Generator[subprocess.Popen[bytes]]:
    """
    Run ``python -m ARGUMENTS`` beside the programs inside the block, and ask it to end after.

    Args:
        log: What it says goes here.
        arguments: A server, its application, its command line.
        variables: As for :func:`run_program`.

    Yields:
        The process, which must end by itself when it is asked to.
    """
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=PROGRAMS,
            env=_environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            yield process
            process.terminate()
            process.wait(_DEADLINE_S)
        finally:
            process.kill()


def _environment(variables: dict[str, str]) -> dict[str, str]:
    ours = {
        variable: value
        for variable, value in os.environ.items()
        if not variable.startswith(("OTEL_", "LATSPAN_"))
    }
    return {**ours, **variables}
