"""The process of one subject, as the process that gives it orders uses it."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from rivals._subjects import Mode, Subject

__all__ = ["SubjectFailedError", "SubjectProcess", "environment"]

_BENCHMARKS: Final = Path(__file__).resolve().parents[1]
_SETTINGS: Final = ("OTEL_", "LATSPAN_", "LANGFUSE_", "LOGFIRE_", "OPENINFERENCE_", "TRACELOOP_")
"""How the variables begin that would change what is measured."""


class SubjectFailedError(Exception):
    """A subject's process came to its end; the message is its last output."""


def environment() -> dict[str, str]:
    """Return the environment variables of a subject's process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    # Hashes of strings decide where things lie in memory, and so how fast they are found.
    return kept | {"PYTHONPATH": str(_BENCHMARKS), "PYTHONHASHSEED": "0"}


class SubjectProcess:
    """
    A process in which one library is switched on, and which executes orders.

    Args:
        python: The interpreter of the library's environment.
        subject: Who.
        mode: Where its telemetry goes.
        collector: The collector's address, for that mode.

    Raises:
        SubjectFailedError: It does not start.
    """

    def __init__(self, python: Path, subject: Subject, mode: Mode, collector: str = "") -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - close() closes it
        self._process = subprocess.Popen(
            [str(python), "-P", "-m", "rivals._worker", subject.name, mode, collector],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment(),
        )
        try:
            self._reply()
        except SubjectFailedError:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self, **order: str) -> Any:
        """
        Give an order, and return the answer.

        Raises:
            SubjectFailedError: The process is gone.
        """
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._reply()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _reply(self) -> Any:
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        self._errors.seek(0)
        output = self._errors.read().strip().splitlines()
        raise SubjectFailedError(
            output[-1] if output else f"exit status {self._process.returncode}"
        )
