"""Inference paths of a folder, each with where it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from latspan._model.goals import InferencePath, files_in, read_inference_path
from latspan._study.loop._criteria import is_done, next_of
from latspan._study.loop._loop import Loop, assess
from latspan._study.loop._results import Result, fingerprints_of, read_results
from latspan.errors import ConfigError, LatspanError, RecordingError

_DAMAGED: Final = (KeyError, ValueError, TypeError, IndexError, AttributeError)


@dataclass(frozen=True, slots=True)
class Listed:
    """
    One inference path of a folder.

    Args:
        file: Its file.
        loop: Where it stands; ``None`` if that cannot be read.
        error: Why it cannot be read.
    """

    file: Path
    loop: Loop | None
    error: LatspanError | None = None


def loop_of(file: Path) -> Loop:
    """
    Return where the inference path of a file stands.

    Raises:
        ConfigError: The file cannot be read or is invalid.
        RecordingError: A result cannot be read or is damaged.
    """
    path = read_inference_path(file)
    results, prints = read_results(file), fingerprints_of(path, file)
    try:
        return _read_once(path, file, results, prints)
    except LatspanError:
        raise
    except _DAMAGED as error:
        damaged = _damaged(path, file, results, prints)
        raise RecordingError(
            f"{damaged.file} is damaged: {type(error).__name__} {error}",
            hint=f"delete it, and run its command again: latspan {damaged.command}",
        ) from error


def _read_once(
    path: InferencePath, file: Path, results: Sequence[Result], prints: Mapping[str, str]
) -> Loop:
    loop = assess(path, file, results, prints)
    # Everything that the documents must have is read once, so that no reader below can fail.
    is_done(loop)
    next_of(loop)
    return loop


def _damaged(
    path: InferencePath, file: Path, results: Sequence[Result], prints: Mapping[str, str]
) -> Result:
    """Return the first result that makes the loop unreadable."""
    for number in range(1, len(results)):
        try:
            _read_once(path, file, results[:number], prints)
        except _DAMAGED:
            return results[number - 1]
    return results[-1]


def loops_in(folder: Path) -> list[Listed]:
    """
    Return the inference paths of a folder, by name.

    Args:
        folder: Folder with the files that ``latspan init`` wrote; other TOML files are left out.

    Raises:
        ConfigError: The folder does not exist or cannot be read.
    """
    try:
        files = files_in(folder)
    except OSError as error:
        raise ConfigError(
            f"cannot read the folder {folder}: {error.strerror}",
            hint="use the folder of the files that latspan init wrote",
        ) from error
    found: list[Listed] = []
    for file in files:
        try:
            found.append(Listed(file, loop_of(file)))
        except LatspanError as error:
            found.append(Listed(file, None, error))
    return found
