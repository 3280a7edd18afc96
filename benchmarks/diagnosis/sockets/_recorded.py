"""
Recordings of the faults: made once per seed, and kept as one compressed archive per family.

Judging a recording again costs seconds, and making it takes up to twelve.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from diagnosis.sockets._faults import FAULTS
from diagnosis.sockets._fault import Made, parameters_of

__all__ = ["CALIBRATION", "RECORDING", "archived", "made", "recorded"]

RECORDING: Final = "recording"
CALIBRATION: Final = "calibration"
_AT_ONCE: Final = 3


def recorded(folder: Path, seed: str, names: Iterable[str]) -> Iterator[tuple[str, Exception | None]]:
    """
    Make the recordings of faults that the folder does not have.

    Args:
        folder: Folder with one folder per fault.
        seed: Seed of the parameters.
        names: Names of the faults.

    Yields:
        The name of each fault as it is done, and why it could not be recorded.
    """
    missing = [name for name in names if not (folder / name).exists()]
    with ProcessPoolExecutor(_AT_ONCE, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(_record, folder / name, name, seed): name for name in missing}
        for future in as_completed(futures):
            error = future.exception()
            yield futures[future], error if isinstance(error, Exception) else None


def _record(folder: Path, name: str, seed: str) -> None:
    began = time.monotonic()
    unfinished = folder.with_name(f".{name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    found = FAULTS[name].inject(unfinished, parameters_of(name, seed))
    kept = unfinished / "kept"
    kept.mkdir()
    found.recording.rename(kept / RECORDING)
    if found.calibration is not None:
        found.calibration.rename(kept / CALIBRATION)
    kept.rename(folder)
    shutil.rmtree(unfinished)
    sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n")


def made(folder: Path) -> Made:
    """Return the recording in the folder of a fault."""
    calibration = folder / CALIBRATION
    return Made(folder / RECORDING, calibration if calibration.exists() else None)


def archived(archive: Path, folder: Path) -> None:
    """Write the recordings of a folder into an archive."""
    with tarfile.open(archive, "w:xz", preset=9) as file:
        for path in sorted(folder.rglob("*.jsonl*")) + sorted(folder.rglob("*.json")):
            file.add(path, path.relative_to(folder), filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
