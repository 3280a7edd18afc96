"""Files of a recording, opened only if they are regular files."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from latspan._model.recording._log import snapshots_of, truncated_in
from latspan._model.recording._snapshot import Snapshot
from latspan._model.recording.folder._writer import names_in
from latspan.errors import RecordingError
from latspan.histogram import read_log


def open_regular(path: Path) -> BinaryIO:
    """
    Open a file to be read, without waiting for the writer of a FIFO.

    Raises:
        OSError: It cannot be read, or is not a regular file.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


_PROCESS_OF_LOG: Final = re.compile(r"-([0-9]+)-[0-9]{8}T[0-9]{6}Z-[0-9a-f]+\.hlog")


def snapshots_in(
    folder: Path, *, without: Collection[str] = (), truncated: dict[str, list[str]] | None = None
) -> Iterator[Snapshot]:
    """
    Yield the snapshots of all histogram logs in a folder.

    Args:
        folder: The folder.
        without: Processes whose logs are left out.
        truncated: Afterwards has the notes on the intervals that a process left incomplete.

    Raises:
        HistogramFormatError, HistogramPrecisionError: As :func:`read_snapshots`.
        RecordingError: A file cannot be read.
    """
    try:
        names = sorted(names_in(folder))
    except OSError as error:
        raise not_readable(folder, error) from error
    for path in (folder / name for name in names if name.endswith(".hlog")):
        process = _PROCESS_OF_LOG.search(path.name)
        if process is not None and process[1] in without:
            continue
        try:
            open_regular(path).close()
            log = read_log(path)
            yield from snapshots_of(log)
        except OSError as error:
            raise not_readable(path, error) from error
        if truncated is not None and log.truncated:
            named = "" if process is None else process[1]
            truncated.setdefault(named, []).extend(truncated_in(log))


def not_readable(path: Path, error: OSError) -> RecordingError:
    """Return the error about a file of a recording that cannot be read."""
    return RecordingError(
        f"cannot read {path}: {error.strerror or error}",
        hint="read the recording as the user who made it; if a file is damaged, remove it",
    )
