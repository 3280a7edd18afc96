"""
File of one process's finished requests in a recording.

A line is written whole, about 10 ms after its request has ended. So a process that is killed loses
only the requests that have not ended or have just ended, and at most its last line is cut off. A
forked child writes a file of its own.

**What is missing.** A reader must state it, so two facts are kept where a full disk cannot hide
them. A file is created with the first request of a process and renamed when the process has written
everything: a file that still has its first name belongs to a process that was killed, or that
replaced itself by exec. Records that cannot be written are counted in one file for all processes,
whose bytes exist before the first process starts and are overwritten in place.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from latspan._base.fork import register_after_fork
from latspan._model.recording._record import RequestRecord
from latspan._model.recording.folder._lines import line_of
from latspan._model.recording.folder._sampling import RecordSampler

MAX_FILE_BYTES: Final = 1_000_000_000
"""Size in bytes above which a process writes no further record, if it is not set."""

_PREFIX: Final = "requests-"
_SUFFIX: Final = ".jsonl"
_ENDED: Final = ".ended"
"""Part of the name of a file to which its process has written everything."""

LOST: Final = "requests.lost"
"""Name of the file with the number of records that could not be written."""

_LOST_BEFORE: Final = "lost"
"""Its name in older recordings."""

_DIGITS: Final = 20


class ProcessFile(NamedTuple):
    """
    A file of finished requests.

    Args:
        path: The file.
        process: Process that wrote it: a process that is configured twice, or replaces itself by
            exec, has several files.
        ended: Whether its process has written everything.
    """

    path: Path
    process: str
    ended: bool


def files_in(folder: Path) -> list[ProcessFile]:
    """
    Return the files of finished requests in a recording, in the order of their names.

    A record that ends after its process has closed the file is written under the first name again.
    Then both files of that name count as ended.

    Raises:
        OSError: The folder cannot be listed.
    """
    found: list[tuple[Path, str, bool]] = []
    for name in sorted(names_in(folder)):
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            stem = name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
            found.append((folder / name, stem.removesuffix(_ENDED), stem.endswith(_ENDED)))
    ended = {stem for _, stem, has_ended in found if has_ended}
    return [ProcessFile(path, stem.partition("-")[0], stem in ended) for path, stem, _ in found]


def names_in(folder: Path) -> list[str]:
    """
    Return the names of the files in a folder; none if it was deleted.

    Raises:
        OSError: It cannot be listed, for example because another user may not.
    """
    # `Path.glob` would return nothing instead of raising.
    with suppress(FileNotFoundError):
        return [path.name for path in folder.iterdir()]
    return []


def prepare(folder: Path, *, is_new: bool) -> None:
    """
    Prepare a folder for the files of several processes, which may do so at the same time.

    Args:
        folder: The folder; it exists.
        is_new: Whether latspan created it. The mode of any other folder is left as it is.

    Raises:
        OSError: The folder cannot be written.
    """
    path = folder / LOST
    try:
        file = path.open("xb")
    except FileExistsError:
        # Another process of the same recording was first, and may have counted something.
        return
    try:
        with file:
            file.write(_number(0))
    except OSError:
        # On a full disk, the file exists without its content.
        path.unlink(missing_ok=True)
        raise
    if os.geteuid() == 0:
        # A server that root starts may run its workers as another user, who cannot create a file
        # here. Such a worker can still count what is missing.
        path.chmod(0o666)
        if is_new:
            folder.chmod(0o711)


def count_of_lost(folder: Path) -> int | None:
    """
    Return the number of records that could not be written; ``None`` if the file is damaged.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
    """
    try:
        digits = _read(folder / LOST)
    except FileNotFoundError:
        digits = _read(folder / _LOST_BEFORE)
    return int(digits) if digits.isdigit() and len(digits) <= _DIGITS else None


class RecordFile:
    """
    File of this process's records in a recording. It is not thread-safe.

    Args:
        folder: Folder of the recording.
        largest: Size in bytes above which no further record is written.
        limit_per_s: Number of records per second above which a sample is written; ``None`` writes
            all.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        largest: float = MAX_FILE_BYTES,
        limit_per_s: float | None = None,
    ) -> None:
        self._folder = Path(folder)
        self._largest = largest
        self._limit_per_s = limit_per_s
        self._reset()
        register_after_fork(self._reset)

    def _reset(self) -> None:
        self._stem = f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
        self._path = self._folder / f"{self._stem}{_SUFFIX}"
        self._sampler = RecordSampler(self._limit_per_s)
        self._size = 0
        self._has_begun = False
        self._is_broken = False

    @property
    def is_full(self) -> bool:
        """Whether the file has reached its maximum size."""
        return self._size >= self._largest

    def begin(self) -> None:
        """Create the file, as a sign that this process records requests; errors are ignored."""
        self._has_begun = True
        # The first record fails too, and is counted.
        with suppress(OSError):
            os.close(self._open())

    def append(self, record: RequestRecord) -> None:
        """
        Write a record, unless a limit excludes it.

        Raises:
            OSError: The file cannot be written. This and all further records of this process are
                counted as lost; only the first one raises.
        """
        if self.is_full:
            self._count_lost()
            return
        ratio = self._sampler.ratio_of(record)
        if not ratio:
            return
        try:
            if not self._is_broken:
                self._write(line_of(record, ratio).encode())
        except OSError:
            self._is_broken = True
            raise
        finally:
            if self._is_broken:
                self._count_lost()

    def end(self) -> None:
        """Mark the file as complete; errors are ignored."""
        if self._has_begun:
            path = self._folder / f"{self._stem}{_ENDED}{_SUFFIX}"
            with suppress(OSError):
                self._path.rename(path)
                self._path = path

    def _write(self, line: bytes) -> None:
        # Opened for each record: nothing is left open or unwritten, however the process ends.
        file = self._open()
        try:
            # On a full disk, a part of the line may be written without an error.
            if os.write(file, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        finally:
            os.close(file)
        self._size += len(line)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _count_lost(self) -> None:
        with suppress(OSError, ValueError):
            file = os.open(self._folder / LOST, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                os.pwrite(file, _number(int(os.pread(file, _DIGITS, 0)) + 1), 0)
            finally:
                os.close(file)


def _read(path: Path) -> bytes:
    # Opened without waiting: another program may have put a FIFO in place of the file.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(file, _DIGITS + 1)
    finally:
        os.close(file)


def _number(lost: int) -> bytes:
    return f"{lost:0{_DIGITS}}".encode()
