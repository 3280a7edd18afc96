"""Outputs of complete records: a file for ``latspan run --report``, lines on the console."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from latspan._log import logger
from latspan._recording import RecordFile, RequestRecord
from latspan._sdk._config import Config
from latspan._sdk._worker import Worker

if TYPE_CHECKING:
    from latspan._export import ConsoleLines

__all__ = ["RECORDS_FOLDER", "RecordOutputs"]

_CONSOLE_TIMEOUT_S: Final = 1.0
"""Maximum wait at the end for a console that does not accept text."""

RECORDS_FOLDER: Final = "LATSPAN_RUN_RECORDS"
"""Variable with the folder of the records, set by ``latspan run --report`` for its program."""


class RecordOutputs:
    """
    Outputs that receive each finished request, as far as they are configured.

    Args:
        config: Configuration.
        worker: Writes files, so that no request waits for one.
    """

    def __init__(self, config: Config, worker: Worker) -> None:
        self._worker = worker
        folder = os.environ.get(RECORDS_FOLDER)
        self._file = RecordFile(folder) if folder else None
        self._printer: Worker | None = None
        self._console: ConsoleLines | None = None
        if config.console or config.console_waterfalls:
            from latspan._export import ConsoleLines

            self._printer = Worker("latspan-console")
            self._console = ConsoleLines(
                self._printer.submit, self._printer.waiting, waterfalls=config.console_waterfalls
            )

    def write(self) -> Callable[[RequestRecord], None] | None:
        """Return the function that outputs a record; ``None`` if there is no output."""
        if self._file is None:
            return None if self._console is None else self._console.write
        return self._write

    def begin(self) -> None:
        """Prepare the output of this process's records; called when its first request begins."""
        if self._file is not None:
            self._file.begin()

    def stop(self) -> None:
        """Complete the file, print what waits, and end the thread; the worker has ended."""
        if self._file is not None:
            self._file.end()
        if self._printer is not None:
            self._printer.stop(_CONSOLE_TIMEOUT_S)

    def _write(self, record: RequestRecord) -> None:
        if self._console is not None:
            self._console.write(record)
        # A job that the worker submits to itself while it stops would not be waited for.
        if self._worker.runs_here():
            self._write_to_file(record)
        else:
            self._worker.submit(partial(self._write_to_file, record))

    def _write_to_file(self, record: RequestRecord) -> None:
        if self._file is None:
            return
        try:
            self._file.append(record)
        except OSError as error:
            logger.warning("the report lacks further requests of this process: %s", error)
