"""Programs that tests run as a user would: in their own process, with a clean environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from latspan.testing import Script

PROGRAMS: Final = Path(__file__).parents[1] / "behaviour" / "programs"
"""Folder of the programs."""

_DEADLINE_S: Final = 60
_DRIVEN_S: Final = 180
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
        arguments: Its arguments.
        under: A command that runs it, with its options.
        variables: Environment variables that replace all ``OTEL_*`` and ``LATSPAN_*`` of this
            process.

    Returns:
        Its standard output; it must succeed and write nothing to standard error.
    """
    done = subprocess.run(
        [*under, sys.executable, *_WARNINGS, str(PROGRAMS / f"{name}.py"), *arguments],
        env=_environment(variables),
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
    )
    ended = (done.returncode, done.stderr)
    assert ended == (0, ""), f"{name} ended with {ended}"
    return done.stdout


class Driven:
    """
    A program that reads one command per line and writes one JSON document per line.

    Args:
        process: Its process.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._commands = process.stdin
        self._documents = process.stdout

    def tell(self, command: str) -> None:
        """Send a command, and do not wait for a result."""
        self._commands.write(f"{command}\n")
        self._commands.flush()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def hear(self) -> dict[str, Any]:
        """Return the program's next document; a program that is silent for minutes is killed."""
        deadline = threading.Timer(_DRIVEN_S, self._process.kill)
        deadline.start()
        try:
            line = self._documents.readline()
        finally:
            deadline.cancel()
        assert line, "the program has ended, or had to be"
        document: dict[str, Any] = json.loads(line)
        return document

    def do(self, command: str) -> dict[str, Any]:
        """Send a command, and return the resulting document."""
        self.tell(command)
        return self.hear()

    def calls(self, count: int) -> Iterator[dict[str, Any]]:
        """Have the program make ``count`` requests, and yield the document of each."""
        self.tell(f"call {count}")
        for _ in range(count):
            yield self.hear()


@contextmanager
def driving(name: str, *arguments: str, **variables: str) -> Generator[Driven]:
    """
    Run ``tests/behaviour/programs/<name>.py`` inside the block, then close its input.

    Args:
        name: The program.
        arguments: Its arguments.
        variables: As in :func:`run_program`.

    Yields:
        A handle to control it. It must succeed by itself and write nothing to standard error.
    """
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [sys.executable, *_WARNINGS, str(PROGRAMS / f"{name}.py"), *arguments],
            env=_environment(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield Driven(process)
            process.communicate(timeout=_DRIVEN_S)
        finally:
            process.kill()
            errors.seek(0)
            said = errors.read()
        assert (process.returncode, said) == (0, "")


@contextmanager
def serving(log: Path, *arguments: str, **variables: str) -> Generator[subprocess.Popen[bytes]]:
    """
    Run ``python -m ARGUMENTS`` in the programs' folder inside the block, then terminate it.

    Args:
        log: File for its output.
        arguments: A server, its application and its options.
        variables: As in :func:`run_program`.

    Yields:
        The process, which must end when it is asked to.
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
            process_group=0,
        ) as process,
    ):
        try:
            yield process
            process.terminate()
            process.wait(_DEADLINE_S)
        except BaseException as error:
            error.add_note(log.read_text(errors="replace"))
            raise
        finally:
            # A killed server leaves its workers behind.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def traffic_plan() -> Iterator[Script]:
    """Yield the scripted response to each request of ``programs/traffic.py``, in order."""
    for number in range(16):
        yield Script.chat(tokens=5, queue_ms=1, prefill_ms=2 + number % 7, gap_ms=2)
    yield Script.chat(tokens=2, prefill_ms=3, gap_ms=1)
    yield Script.chat(tokens=20, prefill_ms=3, gap_ms=2)
    yield Script.refused(500)
    yield Script.refused(429, retry_after_s=0.01)
    for number in range(5):
        yield Script.chat(tokens=5, queue_ms=1, prefill_ms=2 + number, gap_ms=2)


def _environment(variables: dict[str, str]) -> dict[str, str]:
    ours = {
        variable: value
        for variable, value in os.environ.items()
        if not variable.startswith(("OTEL_", "LATSPAN_"))
    }
    # On a busy machine any event loop is late, and tests compare exact segments.
    return {**ours, "LATSPAN_WATCH_EVENT_LOOP": "false", **variables}
