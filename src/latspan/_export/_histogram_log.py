"""The outlet for files: a log of exact histograms, one file a process."""

from __future__ import annotations

import os
import secrets
import socket
from datetime import UTC, datetime
from pathlib import Path

from latspan._export._pending import Unsent
from latspan._recording import Snapshot, write_interval
from latspan._units import NS_PER_S
from latspan.errors import HistogramWriteError
from latspan.histogram import HistogramLogWriter

__all__ = ["HistogramLogs"]


class HistogramLogs:
    """
    Appends each interval to a log of this process's own.

    The file is made with the first interval that has values, and named for the host, the process,
    that interval's start and by chance, so that no two processes write to one. A file or a folder
    that was moved or removed is made again under its name. What could not be written, on a full
    disk say, is written with the next interval.

    Args:
        folder: Where; made if it is not there.
    """

    local = True

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._writer: HistogramLogWriter | None = None
        self._unsent = Unsent()

    def send(self, interval: Snapshot, *, last: bool = False) -> bool:  # noqa: ARG002
        """
        Return whether everything so far was written.

        Raises:
            HistogramWriteError: The file cannot be made, or did not take the interval.
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
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HistogramWriteError(
                f"cannot make the folder {self._folder}: {error.strerror}",
                hint="give histogram_log_dir a folder that may be written to",
            ) from error


def _name_of_file(start_epoch_ns: int) -> str:
    start = datetime.fromtimestamp(start_epoch_ns // NS_PER_S, UTC)
    host = socket.gethostname().partition(".")[0] or "localhost"
    return f"{host}-{os.getpid()}-{start:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}.hlog"
