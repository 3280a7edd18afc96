"""
Where the inference paths of a folder stand, as JSON of the schema ``latspan.status/1``.

Each path has its tasks, its definition of done, and one next command.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, TypedDict

from latspan._study.fields import Date
from latspan._study.loop import (
    Listed,
    NextCommand,
    Task,
    TaskStatus,
    criteria_of,
    is_done,
    next_of,
)

STATUS_SCHEMA: Final = "latspan.status/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

FIRST_COMMAND: Final = NextCommand(
    "latspan init chat", "no inference path yet: this writes the file of one, with a target"
)
"""Next command in a folder without an inference path."""


class StatusCommand(TypedDict):
    """A command to run next."""

    command: Annotated[str, "Command line for a shell in the current folder"]
    reason: str


class StatusTask(TypedDict):
    """A task of the loop, and its result."""

    task: Task
    state: TaskStatus
    date: Date | None
    text: str


class DoneCriterion(TypedDict):
    """A criterion of the definition of done."""

    text: str
    met: bool
    fields: Annotated[list[str], "Empty fields of the file that are all that is lacking"]


class PathStatus(TypedDict):
    """An inference path."""

    name: str
    file: str
    targets: list[str]
    done: bool
    tasks: list[StatusTask]
    definition_of_done: list[DoneCriterion]
    next: StatusCommand


class UnreadablePath(TypedDict):
    """An inference path whose file or results cannot be read."""

    name: str
    file: str
    error: str


class StatusDocument(TypedDict):
    """Where the inference paths of a folder stand: latspan status --json."""

    schema: Literal["latspan.status/1"]
    folder: str
    paths: list[PathStatus | UnreadablePath]
    next: Annotated[
        StatusCommand | None,
        "Next command of the first path that is not done; null if no file can be read",
    ]


def shell_command(command: NextCommand, folder: Path) -> NextCommand:
    """Return a command of a folder as one for a shell in the current folder."""
    if folder == Path():
        return command
    return NextCommand(f"cd {shlex.quote(str(folder))} && {command.command}", command.reason)


def status_document(folder: Path, paths: Sequence[Listed]) -> StatusDocument:
    """
    Return the status of the inference paths of a folder as plain data, ready for ``json.dumps``.

    Args:
        folder: The folder.
        paths: Its inference paths.
    """
    loops = [each.loop for each in paths if each.loop is not None]
    first = next((each for each in loops if not is_done(each)), loops[0] if loops else None)
    upcoming = None if paths else FIRST_COMMAND
    if first is not None:
        upcoming = next_of(first)
    return {
        "schema": STATUS_SCHEMA,
        "folder": str(folder),
        "paths": [_document(each, folder) for each in paths],
        "next": None if upcoming is None else _command(upcoming, folder),
    }


def _document(listed: Listed, folder: Path) -> PathStatus | UnreadablePath:
    loop = listed.loop
    if loop is None:
        return {"name": listed.file.stem, "file": str(listed.file), "error": str(listed.error)}
    return {
        "name": loop.file.stem,
        "file": str(loop.file),
        "targets": [each.label for each in loop.path.targets],
        "done": is_done(loop),
        "tasks": [
            {
                "task": each.task,
                "state": each.state,
                "date": each.day or None,
                "text": each.text,
            }
            for each in loop.tasks
        ],
        "definition_of_done": [
            {"text": each.text, "met": each.is_met, "fields": list(each.fields)}
            for each in criteria_of(loop)
        ],
        "next": _command(next_of(loop), folder),
    }


def _command(command: NextCommand, folder: Path) -> StatusCommand:
    here = shell_command(command, folder)
    return {"command": here.command, "reason": here.reason}
