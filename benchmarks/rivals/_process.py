"""Process of one subject: the side that starts it and sends it orders."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from rivals._subjects import Mode, Subject

_BENCHMARKS: Final = Path(__file__).resolve().parents[1]
_SETTINGS: Final = ("OTEL_", "LATSPAN_", "LANGFUSE_", "LOGFIRE_", "OPENINFERENCE_", "TRACELOOP_")
"""Prefixes of environment variables that would change the libraries' settings."""


class SubjectFailedError(Exception):
    """The process of a subject has ended; the message is its last line of output."""


def environment() -> dict[str, str]:
    """Return the environment variables of a subject's process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    # Hashes of strings affect the layout of dictionaries and sets, and so the speed of look-ups.
    return kept | {"PYTHONPATH": str(_BENCHMARKS), "PYTHONHASHSEED": "0"}


class SubjectProcess:
    """
    Process that switches one library on and then executes orders.

    Args:
        python: Interpreter of the library's environment.
        subject: Subject whose library is switched on.
        mode: Destination of its telemetry.
        collector: Address of the collector, for ``Mode.COLLECTOR``.

    Raises:
        SubjectFailedError: The process ended before the library was switched on.
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
        Send an order, and return the reply.

        Raises:
            SubjectFailedError: The process has ended.
        """
        assert self._process.stdin is not None  # noqa: S101 - Popen has created a pipe
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
        assert self._process.stdout is not None  # noqa: S101 - Popen has created a pipe
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        self._errors.seek(0)
        output = self._errors.read().strip().splitlines()
        raise SubjectFailedError(
            output[-1] if output else f"exit status {self._process.returncode}"
        )
