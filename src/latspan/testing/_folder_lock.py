"""
Lock of a folder, so that only one process at a time changes a file in it.

The lock belongs to the open folder, not to a file next to the changed one: nothing stays behind,
and the operating system releases it when the process ends, however it ends. Each call opens the
folder anew, so threads of one process exclude each other too.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """
    Hold the lock of a folder inside the block; wait until no other process holds it.

    Args:
        folder: The folder.

    Raises:
        OSError: The folder cannot be opened, or its file system has no locks.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # A child that was forked meanwhile has the folder open too, and would keep the lock.
            fcntl.flock(opened, fcntl.LOCK_UN)
    finally:
        os.close(opened)
