"""Inference paths of a folder, each with where it stands."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from latspan._study.loop._criteria import is_done, next_of
from latspan._study.loop._loop import Loop, assess
from latspan._study.loop._results import fingerprints_of, read_results
from latspan._targets import SUFFIX, read_inference_path
from latspan.errors import ConfigError, LatspanError, RecordingError

__all__ = ["Listed", "loop_of", "loops_in"]

_HEADS: Final = ("[[target]]", "[traffic]")
"""Headers of tables of which the file of an inference path has both, and other TOML files none."""


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
    try:
        loop = assess(path, file, read_results(file), fingerprints_of(path, file))
        # Everything that the documents must have is read once, so that no reader below can fail.
        is_done(loop)
        next_of(loop)
    except LatspanError:
        raise
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise RecordingError(
            f"a result of {file} is damaged: {type(error).__name__} {error}",
            hint=f"delete the folder results/{file.stem}, and measure again",
        ) from error
    return loop


def loops_in(folder: Path) -> list[Listed]:
    """
    Return the inference paths of a folder, by name.

    Args:
        folder: Folder with the files that ``latspan init`` wrote; other TOML files are left out.

    Raises:
        ConfigError: The folder does not exist or cannot be read.
    """
    try:
        files = sorted(each for each in folder.iterdir() if each.suffix == SUFFIX)
    except OSError as error:
        raise ConfigError(
            f"cannot read the folder {folder}: {error.strerror}",
            hint="use the folder of the files that latspan init wrote",
        ) from error
    found: list[Listed] = []
    for file in filter(_is_inference_path, files):
        try:
            found.append(Listed(file, loop_of(file)))
        except LatspanError as error:
            found.append(Listed(file, None, error))
    return found


def _is_inference_path(file: Path) -> bool:
    try:
        # A file in another encoding is shown with its error, too.
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    if "\N{REPLACEMENT CHARACTER}" in text:
        return any(head in text for head in _HEADS)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError):
        # A damaged file of an inference path is shown with its error.
        return any(head in text for head in _HEADS)
    # Other programs have a table of this name, but no list of such tables.
    return isinstance(document.get("target"), list) or "traffic" in document
