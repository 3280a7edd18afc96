"""
Recordings of the faults, one archive per seed, so that judging them again costs seconds.

A recording that the load generator made invalid shows nothing about the system, for example because
the machine was busy: it is made again, up to twice.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import time
from collections.abc import Generator, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from diagnosis.sockets._fault import Made, parameters_of
from diagnosis.sockets._faults import FAULTS
from latspan._model.recording.folder import open_recording
from latspan._study.measurement import summarize
from latspan._study.table import read_table

ARCHIVES: Final = Path(__file__).parent / "recordings"
SEEDS: Final = tuple(sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES.glob("*.xz")))
"""Seeds whose recordings are kept."""

_RECORDING: Final = "recording"
_CALIBRATION: Final = "calibration"
_REPEATS: Final = 2


def record(seed: str, names: Iterable[str], *, at_once: int) -> None:
    """
    Make recordings of faults, and keep them in the archive of their seed.

    Args:
        seed: Seed of the parameters.
        names: Names of the faults.
        at_once: Number of recordings that are made at the same time.
    """
    ARCHIVES.mkdir(exist_ok=True)
    with TemporaryDirectory() as name:
        folder = Path(name)
        with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(_record, folder / each, each, seed): each for each in names}
            for future in as_completed(futures):
                sys.stderr.write(f"{futures[future]}: {future.exception() or future.result()}\n")
        with tarfile.open(ARCHIVES / f"{seed}.tar.xz", "w:xz", preset=9) as archive:
            for path in sorted(folder.glob("*/*/*")):
                archive.add(path, path.relative_to(folder), filter=_anonymous)


def _record(folder: Path, name: str, seed: str) -> str:
    began = time.monotonic()
    for _ in range(_REPEATS + 1):
        with TemporaryDirectory() as temporary:
            inside = Path(temporary) / name
            inside.mkdir()
            found = FAULTS[name].inject(inside, parameters_of(name, seed))
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            shutil.move(found.recording, folder / _RECORDING)
            if found.calibration is not None:
                shutil.move(found.calibration, folder / _CALIBRATION)
        if not _is_invalid(folder / _RECORDING):
            break
    return f"{time.monotonic() - began:.0f} s"


def _is_invalid(folder: Path) -> bool:
    recording = open_recording(folder)
    steps = recording.manifest.get("measurement", {}).get("steps", ())
    if not steps:
        return False
    summary = summarize(recording, read_table(recording))
    return any(caveat.invalidates for step in summary.steps for caveat in step.caveats)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


@contextmanager
def kept(seed: str) -> Generator[Path]:
    """Extract the recordings of a seed into a folder for the time of a ``with`` block."""
    with TemporaryDirectory() as name, tarfile.open(ARCHIVES / f"{seed}.tar.xz") as archive:
        archive.extractall(name, filter="data")
        yield Path(name)


def made(folder: Path) -> Made:
    """Return the recording in the folder of a fault."""
    calibration = folder / _CALIBRATION
    return Made(folder / _RECORDING, calibration if calibration.exists() else None)
