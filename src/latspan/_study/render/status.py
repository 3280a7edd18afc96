"""
Where the inference paths of a folder stand, on a terminal.

Each path has its tasks, its definition of done, and one next command.
"""

from __future__ import annotations

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
    next_of,
)
from latspan._study.render.layout import MARGIN, fitted, prose, shown, title
from latspan._study.render.status_json import FIRST_COMMAND, shell_command

_STYLES: Final = {
    TaskStatus.DONE: "green",
    TaskStatus.OPEN: "yellow",
    TaskStatus.STALE: "yellow",
    TaskStatus.NOT_NEEDED: FAINT,
}
_LEFT_OUT_FIRST: Final = ("instrument", "target", "watch", "change", "document")
"""Columns left out on a narrow terminal, in this order; the table of each path has them."""


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
            yield from _next(shell_command(FIRST_COMMAND, self.folder), options)
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
    yield from _next(shell_command(next_of(loop), folder), options)


def _next(command: NextCommand, options: ConsoleOptions) -> Iterator[Text]:
    yield prose(f"next: {command.reason}", options)
    # On a line of its own, so that it can be copied.
    yield shown(Text.assemble(MARGIN, (command.command, "bold")), options)
