"""
Where the inference paths of a folder stand: on a terminal, and as JSON of ``latspan.status/1``.

Each path has its tasks, its definition of done, and one next command.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._model.text import FAINT, in_words
from latspan._study.loop import (
    Listed,
    Loop,
    NextCommand,
    Task,
    TaskStatus,
    criteria_of,
    is_done,
    next_of,
)
from latspan._study.render.layout import MARGIN, fitted, prose, shown, title

STATUS_SCHEMA: Final = "latspan.status/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

_STYLES: Final = {
    TaskStatus.DONE: "green",
    TaskStatus.OPEN: "yellow",
    TaskStatus.STALE: "yellow",
    TaskStatus.NOT_NEEDED: FAINT,
}
_LEFT_OUT_FIRST: Final = ("instrument", "target", "watch", "change", "document")
"""Columns left out on a narrow terminal, in this order; the table of each path has them."""
_FIRST: Final = NextCommand(
    "latspan init chat", "no inference path yet: this writes the file of one, with a target"
)


@dataclass(frozen=True, slots=True)
class StatusReport:
    """
    Status of the inference paths of a folder.

    Args:
        folder: The folder.
        paths: Its inference paths.
    """

    folder: Path
    paths: Sequence[Listed]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield an overview of several paths, and each path."""
        del console
        if not self.paths:
            yield from _next(_here(_FIRST, self.folder), options)
            return
        if len(self.paths) > 1:
            yield from _overview(self.paths, options)
        for number, each in enumerate(self.paths):
            if number or len(self.paths) > 1:
                yield Text()
            if each.loop is None:
                yield from _error(each, options)
            else:
                yield from _path(each.loop, self.folder, options)


def _error(listed: Listed, options: ConsoleOptions) -> Iterator[Text]:
    """Yield why a path cannot be read, and the hint on a line of its own."""
    text = str(listed.error)
    name = "" if listed.file.name in text else f"{listed.file.name}: "
    for line in f"{name}{text}".split("\n"):
        yield prose(line, options, hanging=len(MARGIN))


def _overview(paths: Sequence[Listed], options: ConsoleOptions) -> Iterator[Text]:
    loops = [each.loop for each in paths if each.loop is not None]
    if not loops:
        return
    columns = {"path": [Text(each.file.stem) for each in paths if each.loop is not None]}
    for task in Task:
        states = [each.state(task).state for each in loops]
        columns[task.value] = [Text(in_words(state), style=_STYLES[state]) for state in states]
    columns["done"] = [Text(_tally(each)) for each in loops]
    lines, _ = fitted(
        columns,
        left=columns.keys(),
        left_out_first=_LEFT_OUT_FIRST,
        names=("path",),
        options=options,
    )
    yield from lines


def _tally(loop: Loop) -> str:
    criteria = criteria_of(loop)
    return f"{sum(each.is_met for each in criteria)} of {len(criteria)}"


def _path(loop: Loop, folder: Path, options: ConsoleOptions) -> Iterator[Text]:
    yield title(loop.file.stem, loop.path.targets[0].label, options=options)
    lines, _ = fitted(
        {
            "task": [Text(each.task) for each in loop.tasks],
            "state": [Text(in_words(each.state), style=_STYLES[each.state]) for each in loop.tasks],
            "date": [Text(each.day) for each in loop.tasks],
            "result": [Text(each.text) for each in loop.tasks],
        },
        left=("task", "state", "date", "result"),
        left_out_first=(),
        names=(),
        sentences="result",
        options=options,
    )
    yield from lines
    yield Text()
    yield title("definition of done", _tally(loop), options=options)
    for each in criteria_of(loop):
        lacking = f": fill in {', '.join(each.fields)}" if each.fields else ""
        line = f"{MARGIN}[{'x' if each.is_met else ' '}] {each.text}{lacking}"
        yield prose(line, options, style=FAINT if each.is_met else "", hanging=len(f"{MARGIN}[x] "))
    yield Text()
    yield from _next(_here(next_of(loop), folder), options)


def _next(command: NextCommand, options: ConsoleOptions) -> Iterator[Text]:
    yield prose(f"next: {command.reason}", options)
    # On a line of its own, so that it can be copied.
    yield shown(Text.assemble(MARGIN, (command.command, "bold")), options)


def _here(command: NextCommand, folder: Path) -> NextCommand:
    """Return a command for a shell in the current folder."""
    if folder == Path():
        return command
    return NextCommand(f"cd {shlex.quote(str(folder))} && {command.command}", command.reason)


def status_document(folder: Path, paths: Sequence[Listed]) -> dict[str, object]:
    """
    Return the status of the inference paths of a folder as plain data, ready for ``json.dumps``.

    Args:
        folder: The folder.
        paths: Its inference paths.
    """
    loops = [each.loop for each in paths if each.loop is not None]
    first = next((each for each in loops if not is_done(each)), loops[0] if loops else None)
    upcoming = None if paths and first is None else _FIRST if first is None else next_of(first)
    return {
        "schema": STATUS_SCHEMA,
        "folder": str(folder),
        "paths": [_document(each, folder) for each in paths],
        "next": None if upcoming is None else _command(upcoming, folder),
    }


def _document(listed: Listed, folder: Path) -> dict[str, object]:
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
                "task": each.task.value,
                "state": each.state.value,
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


def _command(command: NextCommand, folder: Path) -> dict[str, str]:
    here = _here(command, folder)
    return {"command": here.command, "reason": here.reason}
