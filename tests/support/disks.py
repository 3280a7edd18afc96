"""Small, almost full disks: file systems in memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

_SIZE: Final = 8 << 20


class Disk:
    """
    A small file system in memory.

    Args:
        folder: Mount point.
        room: Approximate number of free bytes until :meth:`make_room`.
    """

    def __init__(self, folder: Path, room: int) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        with self._filler.open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, _SIZE - room)

    @property
    def free(self) -> int:
        """Number of free bytes."""
        state = os.statvfs(self.folder)
        return state.f_bavail * state.f_bsize

    def make_room(self) -> None:
        """Delete the file that fills the disk."""
        self._filler.unlink()


@contextmanager
def almost_full_disk(folder: Path, room: int) -> Generator[Disk]:
    """
    Mount an almost full disk at ``folder`` inside the block; skip if mounting is not allowed.

    Args:
        folder: Mount point, created for the disk.
        room: Approximate number of free bytes.
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
    """Run a command, and return why it failed, if it did."""
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip() or "it says not why" if done.returncode else ""
