"""Outputs of complete records: recordings, and lines on the console."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from latspan._base.log import logger
from latspan._live.process.worker import Worker
from latspan._live.sdk._config import Config

if TYPE_CHECKING:
    from latspan._live.otel.export import ConsoleLines
    from latspan._model.recording import RequestRecord
    from latspan._model.recording.folder import RecordFile

_BYTES_PER_MB: Final = 1_000_000

_CONSOLE_TIMEOUT_S: Final = 1.0
"""Maximum wait at the end for a console that does not accept text."""

RECORDS_FOLDER: Final = "LATSPAN_RUN_RECORDS"
"""
Variable with a folder for records, set by ``latspan run`` for its program: a recording with
``--record``, a temporary folder with ``--report`` alone. The setting ``record_dir`` applies too.
"""

_MAX_TEMPORARY_BYTES: Final = 200_000_000
"""Size in bytes of a process's file in a temporary folder."""


def writes_records(config: Config) -> bool:
    """Return whether this process writes each finished request to a file."""
    return bool(os.environ.get(RECORDS_FOLDER)) or config.record_dir is not None


def recording_folders(config: Config) -> list[str]:
    """Return the folders of the recordings to which this process writes."""
    if not writes_records(config):
        return []
    from latspan._model.recording.folder import is_recording

    of_run = os.environ.get(RECORDS_FOLDER)

    kept = of_run if of_run and is_recording(of_run) else None
    return list(dict.fromkeys(folder for folder in (kept, config.record_dir) if folder))


class RecordOutputs:
    """
    Outputs that receive each finished request, as far as they are configured.

    Args:
        config: Configuration.
        worker: Writes files, so that no request waits for one.
    """

    def __init__(self, config: Config, worker: Worker) -> None:
        self._worker = worker
        self._files = _record_files(config)
        self._printer: Worker | None = None
        self._console: ConsoleLines | None = None
        if config.console or config.console_waterfalls:
            from latspan._live.otel.export import ConsoleLines

            self._printer = Worker("latspan-console")
            self._console = ConsoleLines(
                self._printer.submit, self._printer.waiting, waterfalls=config.console_waterfalls
            )

    def write(self) -> Callable[[RequestRecord], None] | None:
        """Return the function that outputs a record; ``None`` if there is no output."""
        if not self._files:
            return None if self._console is None else self._console.write
        return self._write

    def begin(self) -> None:
        """Prepare the output of this process's records; called when its first request begins."""
        for file in self._files:
            file.begin()

    def stop(self) -> None:
        """Complete the files, print what waits, and end the thread; the worker has ended."""
        for file in self._files:
            file.end()
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
        for file in self._files:
            was_full = file.is_full
            try:
                file.append(record)
            except OSError as error:
                logger.warning("the recording lacks further requests of this process: %s", error)
            if file.is_full and not was_full:
                logger.warning(
                    "the recording lacks further requests of this process, because its file has"
                    " reached record_size_limit_mb; histograms still count them"
                )


def _record_files(config: Config) -> list[RecordFile]:
    if not writes_records(config):
        return []
    from latspan._model.recording.folder import RecordFile, join_recording

    folders = recording_folders(config)
    for folder in folders:
        join_recording(folder)
    files = [
        RecordFile(
            folder,
            largest=config.record_size_limit_mb * _BYTES_PER_MB,
            limit_per_s=config.record_rate_limit,
        )
        for folder in folders
    ]
    of_run = os.environ.get(RECORDS_FOLDER)
    if of_run and of_run not in folders:
        files.append(RecordFile(of_run, largest=_MAX_TEMPORARY_BYTES))
    return files
