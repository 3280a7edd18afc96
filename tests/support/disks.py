"""Small disks, almost full: file systems of their own, in memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

__all__ = ["Disk", "almost_full_disk"]

_SIZE: Final = 8 << 20


class Disk:
    """
    One of them.

    Args:
        folder: Where it is.
        room: How many bytes it takes, more or less, until :meth:`make_room`.
    """

    def __init__(self, folder: Path, room: int) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        with self._filler.open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, _SIZE - room)

    @property
    def free(self) -> int:
        """How many bytes it still takes."""
        state = os.statvfs(self.folder)
        return state.f_bavail * state.f_bsize

    def make_room(self) -> None:
        """Delete what filled it."""
        self._filler.unlink()


@contextmanager
def almost_full_disk(folder: Path, room: int) -> Generator[Disk]:
    """
    Have one at ``folder`` inside the block; skip where that is not allowed.

    Args:
        folder: Made for it.
        room: How many bytes it takes.
    """
    folder.mkdir()
    refused = _do("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder))
    if refused:
        pytest.skip(f"no file system can be mounted here: {refused}")
    try:
        yield Disk(folder, room)
    finally:
        stays = _do("umount", str(folder))
        assert not stays


def _do(*command: str) -> str:
    """Return why it could not be done."""
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip() or "it says not why" if done.returncode else ""
