"""
Atomic replacement of a file: the new contents are written completely, then moved into place.

A symbolic link is kept, and its target is replaced. A device or a FIFO is not replaced; the
contents are written to it.
"""

from __future__ import annotations

import errno
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from latspan.errors import ConfigError, LatspanError


@contextmanager
def replacing(output: str) -> Generator[Path]:
    """
    Yield the path to write to; at the end of the block it replaces ``output``.

    If the block raises, ``output`` is unchanged.

    Args:
        output: Path given by the user.

    Raises:
        ConfigError: It is a folder, or cannot be written to.
    """
    with _refused(output):
        target = Path(output).resolve()
        # Not the target's mode: a link in /dev/fd to a pipe does not resolve to a path.
        mode = _mode_of(Path(output))
        if mode is not None and stat.S_ISDIR(mode):
            raise ConfigError(f"{output} is a folder", hint="use the path of a file in it")
        is_file = mode is None or stat.S_ISREG(mode)
        # A new folder next to the file: it holds no files of another run, and a file created in it
        # gets the process's usual permissions.
        folder = TemporaryDirectory(
            prefix=".latspan-", dir=target.parent if is_file else None, ignore_cleanup_errors=True
        )
    with folder as name:
        written = Path(name) / "written"
        with _refused(output, written=written):
            yield written
        with _refused(output):
            if not is_file:
                with written.open("rb") as source, Path(output).open("wb") as device:
                    shutil.copyfileobj(source, device)
                return
            if mode is not None:
                written.chmod(stat.S_IMODE(mode))
            written.replace(target)


def _mode_of(path: Path) -> int | None:
    """Return the type and permissions of a file; ``None`` if it does not exist."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _refused(output: str, *, written: Path | None = None) -> Generator[None]:
    """
    Raise an error of the system as a :class:`ConfigError` that names the file.

    Args:
        output: Path given by the user.
        written: File that the caller of :func:`replacing` writes. If given, errors that do not
            concern it are raised unchanged: the caller may read other files.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        if written is not None and not _is_of_writing(error, written):
            raise
        why = getattr(error, "strerror", None) or "its symbolic links form a loop"
        raise ConfigError(
            f"cannot write to {output}: {why}",
            hint="use a path in an existing folder that you can write to, with free space",
        ) from error


def _is_of_writing(error: Exception, written: Path) -> bool:
    """Return whether an error arose because a file could not be written."""
    if not isinstance(error, OSError) or isinstance(error, LatspanError):
        return False
    # Only an error of opening a file has its name.
    return error.errno in _FULL or error.filename in (written, str(written))


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
