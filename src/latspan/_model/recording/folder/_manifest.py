"""
Manifest of a recording: its origin, and the conditions under which it was made.

The manifest is replaced as a whole, so a reader sees the old one or the new one.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from latspan._model.recording.folder._conditions import host_conditions
from latspan._model.recording.folder._load_test import load_test_of, typed
from latspan._model.recording.folder._regular import open_regular
from latspan._model.recording.folder._writer import LOST, files_in, prepare
from latspan._version import __version__
from latspan.errors import ConfigError, RecordingError

SCHEMA: Final = "latspan.recording/2"
OLD_SCHEMA: Final = "latspan.recording/1"
"""Schema in which a request has the segments of its last call only, and no steps."""
_READABLE: Final = frozenset({SCHEMA, OLD_SCHEMA})
_NAME: Final = "recording.json"
_MAX_BYTES: Final = 64_000_000
"""Size in bytes above which a manifest is not read."""

Origin: TypeAlias = Literal["measure", "run", "record_dir", "convert"]
"""How a recording was made."""


class Manifest:
    """
    Manifest of a recording that is being made.

    Args:
        folder: Folder of the recording.
        fields: Contents of the manifest.
        created_folder: Whether the folder was created for this recording.
    """

    def __init__(
        self, folder: Path, fields: Mapping[str, Any], *, created_folder: bool = False
    ) -> None:
        self.folder = folder
        self._fields = dict(fields)
        self._created_folder = created_folder

    @property
    def fields(self) -> Mapping[str, Any]:
        """Contents of the manifest."""
        return MappingProxyType(self._fields)

    def discard(self) -> None:
        """
        Delete the files of a recording that :func:`begin_recording` began; errors are ignored.

        The folder was empty then, so all of these files are the recording's.
        """
        requests = (file.path for file in files_in(self.folder))
        for path in (
            *requests,
            *self.folder.glob("*.hlog"),
            self.folder / _NAME,
            self.folder / LOST,
        ):
            with suppress(OSError):
                path.unlink()
        if self._created_folder:
            with suppress(OSError):
                self.folder.rmdir()

    def update(self, **fields: Mapping[str, Any]) -> None:
        """
        Merge values into the manifest and write it.

        Args:
            fields: Mappings by their field, for example ``measurement`` or ``conditions``.

        Raises:
            RecordingError: The manifest cannot be written.
        """
        for name, values in fields.items():
            self._fields[name] = {**self._fields.get(name, {}), **values}
        text = json.dumps(self._fields, indent=2, allow_nan=False) + "\n"
        path = self.folder / _NAME
        written = path.with_name(f".{_NAME}.{secrets.token_hex(4)}")
        try:
            try:
                written.write_text(text, "utf-8")
                written.replace(path)
            finally:
                written.unlink(missing_ok=True)
        except OSError as error:
            raise _not_writable(self.folder, error) from error


def begin_recording(
    folder: str | os.PathLike[str],
    *,
    source: Origin,
    conditions: Mapping[str, Any] = MappingProxyType({}),
) -> Manifest:
    """
    Create the folder of a recording with its manifest.

    Args:
        folder: Folder to create; it may exist if it is empty.
        source: How the recording is made.
        conditions: Conditions that are known so far, in addition to those of the machine.

    Raises:
        RecordingError: The folder is not empty, or cannot be written.
    """
    path = Path(folder)
    try:
        holds_recording = is_recording(path)
        is_used = path.is_dir() and any(path.iterdir())
    except OSError as error:
        raise _not_writable(path, error) from error
    if holds_recording:
        raise RecordingError(
            f"{path} already holds a recording",
            hint="use another folder, or delete this one first",
        )
    if is_used:
        raise RecordingError(
            f"{path} is not empty, and a recording needs a folder of its own",
            hint="use a folder that does not exist yet, or an empty one",
        )
    return _create(path, source, conditions)


def is_recording(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder has the manifest of a recording."""
    return (Path(folder) / _NAME).is_file()


def refuse_copies(recordings: Iterable[tuple[str, object]]) -> None:
    """
    Raise an error if two of several recordings are the same one, or a copy of it.

    Args:
        recordings: Name for messages and identifier of each one. An identifier that is empty or is
            not text is unknown.

    Raises:
        ConfigError: Two have the same identifier.
    """
    known: dict[str, str] = {}
    for name, identifier in recordings:
        if not identifier or not isinstance(identifier, str):
            continue
        if identifier in known:
            other = known[identifier]
            text = f"{name} is given twice" if name == other else f"{name} is a copy of {other}"
            raise ConfigError(
                f"{text}: one recording is one run",
                hint="use each recording once, on one side; more runs need more recordings",
            )
        known[identifier] = name


def join_recording(folder: str | os.PathLike[str]) -> Manifest:
    """
    Return the manifest of a recording to which this process adds its requests.

    The first process creates it.

    Raises:
        RecordingError: The folder cannot be written, or holds another version's recording.
    """
    path = Path(folder)
    try:
        return Manifest(path, read_manifest(path))
    except FileNotFoundError:
        return _create(path, "record_dir", {})
    except OSError as error:
        raise _not_writable(path, error) from error


def _create(path: Path, source: Origin, conditions: Mapping[str, Any]) -> Manifest:
    is_new = not path.is_dir()
    try:
        path.mkdir(parents=True, exist_ok=True)
        prepare(path, is_new=is_new)
    except OSError as error:
        if is_new:
            with suppress(OSError):
                path.rmdir()
        raise _not_writable(path, error) from error
    created = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    manifest = Manifest(
        path,
        {
            "schema": SCHEMA,
            "id": secrets.token_hex(8),
            "created": created,
            "source": source,
            "latspan": __version__,
        },
        created_folder=is_new,
    )
    # A recording of another program's measurements was made elsewhere.
    here = {} if source == "convert" else host_conditions()
    try:
        manifest.update(conditions={**here, **conditions})
    except RecordingError:
        if source != "record_dir":
            # Other processes may have joined a folder of record_dir.
            manifest.discard()
        raise
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """
    Return the manifest of a recording.

    Raises:
        FileNotFoundError: There is none.
        RecordingError: It is damaged, or a later release of latspan wrote it.
        OSError: It cannot be read.
    """
    path = folder / _NAME
    with open_regular(path) as file:
        text = file.read(_MAX_BYTES + 1)
    try:
        if len(text) > _MAX_BYTES:
            raise ValueError("too large")
        fields: object = json.loads(text)
        if not isinstance(fields, dict):
            raise TypeError("no object")
        manifest = cast("dict[str, Any]", fields)
        schema = manifest["schema"]
        if not isinstance(schema, str):
            raise TypeError("the schema is no text")
        if schema in _READABLE:
            _check_types(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordingError(
            f"{path} is not the manifest of a recording",
            hint="use a folder that latspan measure, latspan run --record or record_dir wrote",
        ) from error
    if schema not in _READABLE:
        raise RecordingError(
            f"{path} has the schema {schema!r}, which this release cannot read",
            hint=f"update latspan; this is release {__version__}, which reads {SCHEMA}",
        )
    return manifest


def _check_types(manifest: Mapping[str, Any]) -> None:
    """Raise an exception if a field that readers use has another type."""
    conditions = typed(manifest, "conditions", dict)
    typed(conditions, "prompts", dict)
    for lack in typed(typed(manifest, "conversion", dict), "lacks", list):
        if not isinstance(lack, str):
            raise TypeError("what a conversion lacks is no text")
    load_test_of(manifest)


def _not_writable(folder: Path, error: OSError) -> RecordingError:
    return RecordingError(
        f"cannot write a recording to {folder}: {error.strerror or error}",
        hint="use a folder that can be written and has free space",
    )
