"""Interval exporter for files: a log of exact histograms, one file per process."""

from __future__ import annotations

import os
import secrets
import socket
from datetime import UTC, datetime
from pathlib import Path

from latspan._base.nanoseconds import NS_PER_S
from latspan._live.otel.export._interval_export import Unsent
from latspan._model.recording import Snapshot, write_interval
from latspan.errors import HistogramWriteError
from latspan.histogram import HistogramLogWriter


class HistogramLogs:
    """
    Interval exporter that appends each interval to a log file of this process.

    The file is created with the first interval that has values. Its name consists of the host, the
    process ID, the start of that interval and a random part, so that no two processes write to the
    same file. If the file or the folder was moved or removed, it is created again under the same
    name. An interval that could not be written, for example on a full disk, is written together
    with the next one.

    Args:
        folder: Folder of the file; created if it does not exist.
    """

    local = True
    lost = 0

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._writer: HistogramLogWriter | None = None
        self._unsent = Unsent()

    def send(self, interval: Snapshot, *, last: bool = False) -> bool:  # noqa: ARG002
        """
        Write an interval and return whether everything so far was written.

        Raises:
            HistogramWriteError: The file cannot be created, or the interval cannot be written.
        """
        pending = self._unsent.joined_by(interval)
        if pending.series:
            self._make_folder()
            if self._writer is None:
                self._writer = HistogramLogWriter(
                    self._folder / _name_of_file(pending.start_epoch_ns)
                )
            write_interval(self._writer, pending)
        self._unsent.all_delivered()
        return True

    def shutdown(self, timeout_s: float) -> None:  # noqa: ARG002 - nothing waits
        """Close the file, if one is open."""
        if self._writer is not None:
            self._writer.close()

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HistogramWriteError(
                f"cannot create the folder {self._folder}: {error.strerror}",
                hint="set histogram_log_dir to a folder that you can write to",
            ) from error


def _name_of_file(start_epoch_ns: int) -> str:
    start = datetime.fromtimestamp(start_epoch_ns // NS_PER_S, UTC)
    host = socket.gethostname().partition(".")[0] or "localhost"
    return f"{host}-{os.getpid()}-{start:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}.hlog"
