"""
Results: the JSON documents of the tasks of an inference path, kept in files next to its own file.

A result is written once and never changed, so their order is the history of the inference path. It
has fingerprints of the parts of the file that it depends on, so that a later change of the model,
the target or a prompt shows which results no longer apply.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast

from latspan._model.goals import InferencePath
from latspan.errors import RecordingError

RESULT_SCHEMA: Final = "latspan.result/1"
"""Kind and version of a file; a field that changes its meaning increments the version."""

_FOLDER: Final = "results"
_MAX_BYTES: Final = 64_000_000
"""Size in bytes above which a result is not read."""

_MISSING: Final = "missing"

_ONCE: Final = ("-o", "--output")
"""Options that are omitted if a command is repeated: their folder is no longer empty."""


class Task(StrEnum):
    """Task of the loop, in its order."""

    TARGET = "target"
    INSTRUMENT = "instrument"
    MEASURE = "measure"
    DIAGNOSE = "diagnose"
    CHANGE = "change"
    VERIFY = "verify"
    DOCUMENT = "document"
    WATCH = "watch"


_KEPT: Final[dict[Task, str]] = {
    Task.MEASURE: "latspan.measurement/1",
    Task.DIAGNOSE: "latspan.diagnosis/1",
    Task.VERIFY: "latspan.verification/1",
    Task.DOCUMENT: "latspan.write_up/1",
    Task.WATCH: "latspan.sweep/1",
}
"""Schema of the document of each task that has one."""

_NAME: Final = re.compile(rf"\d{{8}}-\d{{6}}-\d{{6}}-({'|'.join(_KEPT)})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """
    Result of a task.

    Args:
        task: The task.
        created: Time at which it was kept, in UTC.
        command: Command line that produced it, without ``latspan``.
        exit_code: Exit code of the command.
        recordings: Folders that it was computed from, relative to the inference path's folder.
        fingerprints: Fingerprints of the parts of the file, by the part's name.
        document: The JSON document of the command.
        file: File in which it is kept.
    """

    task: Task
    created: datetime
    command: str
    exit_code: int
    recordings: tuple[str, ...]
    fingerprints: Mapping[str, str]
    document: Mapping[str, Any]
    file: Path = Path()

    @property
    def day(self) -> str:
        """Its date, as ``2026-12-31``."""
        return f"{self.created:%Y-%m-%d}"

    def repeated(self, without: Collection[str] = ()) -> str:
        """
        Return the command line, with ``latspan``, that does the task once more.

        Args:
            without: Options to leave out, with their values.
        """
        words: list[str] = []
        given = iter(shlex.split(self.command))
        for word in given:
            name, equals, _ = word.partition("=")
            if name not in _ONCE and name not in without:
                words.append(word)
            elif not equals:
                next(given, None)
        return shlex.join(["latspan", *words])


def fingerprints_of(path: InferencePath, file: Path) -> dict[str, str]:
    """
    Return the fingerprints of the parts of an inference path.

    Args:
        path: The inference path.
        file: Its file; the files of prompts and of the template are relative to its folder.
    """
    folder = file.parent
    targets = [
        (each.metric, each.percentile, each.limit_ns, each.budget.limits_ns)
        for each in path.targets
    ]
    change = path.change
    parts = {
        "endpoint": path.endpoint,
        "model": path.model,
        "target": repr(targets),
        "traffic": repr(path.traffic),
        "prompts": _contents(folder, path.prompt.prompts),
        "template": _contents(folder, path.prompt.template),
        "change": repr((change.lever, change.options, change.apply, change.undo)),
        "file": _contents(folder, file.name),
    }
    return {name: _fingerprint(text.encode()) for name, text in parts.items()}


def _contents(folder: Path, name: str) -> str:
    if not name:
        return ""
    try:
        return _fingerprint((folder / name).read_bytes())
    # A null character in a name is a ValueError.
    except (OSError, ValueError):
        return _MISSING


def _fingerprint(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()[:16]}"


def keep_result(
    file: Path,
    task: Task,
    document: Mapping[str, object],
    *,
    command: str,
    exit_code: int,
    fingerprints: Mapping[str, str],
    recordings: Sequence[str | os.PathLike[str]] = (),
) -> Path:
    """
    Write the result of a task, and return its file.

    Args:
        file: File of the inference path.
        task: The task.
        document: Its JSON document.
        command: Command line that produced it, without ``latspan``.
        exit_code: Exit code of the command.
        fingerprints: Fingerprints of the file when the command began.
        recordings: Folders that it was computed from.

    Raises:
        RecordingError: The file cannot be written.
    """
    now = datetime.now(UTC)
    fields = {
        "schema": RESULT_SCHEMA,
        "task": task.value,
        "created": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "command": command,
        "exit_code": exit_code,
        "recordings": [os.path.relpath(each, file.parent) for each in recordings],
        "fingerprints": dict(fingerprints),
        "document": document,
    }
    folder = _folder_of(file)
    # The time comes first, so that a listing of the folder is the history.
    name = f"{now:%Y%m%d-%H%M%S-%f}-{task.value}.json"
    written = folder / f".{name}.{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            written.write_text(json.dumps(fields, indent=1, allow_nan=False) + "\n", "utf-8")
            written.replace(folder / name)
        finally:
            written.unlink(missing_ok=True)
    except OSError as error:
        raise RecordingError(
            f"cannot write a result to {folder}: {error.strerror or error}",
            hint="use a folder that can be written and has free space",
        ) from error
    return folder / name


def read_results(file: Path) -> list[Result]:
    """
    Return the results of an inference path, the oldest first.

    Args:
        file: File of the inference path.

    Raises:
        RecordingError: A file cannot be read, or is not a result of this release.
    """
    # Other files in the folder are the user's.
    files = (each for each in _folder_of(file).glob("*.json") if _NAME.fullmatch(each.name))
    found = [_read(each) for each in files]
    return sorted(found, key=lambda each: each.created)


def _folder_of(file: Path) -> Path:
    return file.parent / _FOLDER / file.stem


def _read(file: Path) -> Result:
    try:
        with file.open("rb") as opened:
            text = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise RecordingError(
            f"cannot read {file}: {error.strerror or error}", hint="make the file readable"
        ) from error
    try:
        if len(text) > _MAX_BYTES:
            raise ValueError("too large")
        return _result_of(json.loads(text), file)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordingError(
            f"{file} is not a result that this release can read",
            hint="delete it, and run its command again",
        ) from error


def _result_of(fields: Mapping[str, Any], file: Path) -> Result:
    task = Task(fields["task"])
    document = fields["document"]
    if fields["schema"] != RESULT_SCHEMA or document["schema"] != _KEPT[task]:
        raise ValueError("another schema")
    texts: list[object] = [fields["command"], *fields["recordings"]]
    if not all(isinstance(each, str) for each in texts) or not isinstance(fields["exit_code"], int):
        raise TypeError("a field has another type")
    return Result(
        task=task,
        created=datetime.fromisoformat(fields["created"]).astimezone(UTC),
        command=fields["command"],
        exit_code=fields["exit_code"],
        recordings=tuple(fields["recordings"]),
        fingerprints=dict(cast("Mapping[str, str]", fields["fingerprints"])),
        document=document,
        file=file,
    )
