"""
Space that a measurement keeps for the end of its recording.

A recording that fills the disk loses requests. Its manifest, which has the statistics of the load
generator, is written last. Without it, the recorded requests have no verdict.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from latspan.errors import RecordingError

_NAME: Final = ".reserved"
_SIZE: Final = 64 * 1024
"""Bytes kept: a manifest, twice, because a new one is written before it replaces the other."""

_MIN_RECORD_BYTES: Final = 800
"""Bytes: the line of a request without attributes, with an answer of one chunk, has more."""


class Reserve:
    """
    A file that takes up space, until the space is needed.

    Args:
        folder: Folder of a recording, which exists.
        requests: Number of requests that will be recorded at least.

    Raises:
        RecordingError: The disk has less space than the shortest records of so many requests need.
    """

    def __init__(self, folder: Path, requests: int) -> None:
        self._file = folder / _NAME
        free = shutil.disk_usage(folder).free
        needed = _SIZE + requests * _MIN_RECORD_BYTES
        if free < needed:
            raise RecordingError(
                f"{folder} has {free // 1000:,} kB of free space; a recording of {requests:,}"
                f" requests needs more than {needed // 1000:,} kB",
                hint="free some space, or choose another folder",
            )
        # Without the reserve, the measurement goes on: only a full disk at its end needs it.
        with suppress(OSError):
            self._file.write_bytes(os.urandom(_SIZE))

    def release(self) -> None:
        """Free the space; an error is ignored, and shows when the manifest is written."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
