"""Progress display: a bar if stderr is a terminal, otherwise an occasional line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import Final, TextIO

from latspan.cli._console import print_message

_LINES_EVERY: Final = 10

_SHORT_BYTES: Final = 20_000_000
"""Size of a recording that is read in about a second, so that no progress is shown."""


@contextmanager
def progress(total: int, noun: str) -> Generator[Callable[[], None]]:
    """
    Yield the function to call each time one of ``total`` items is done.

    Args:
        total: Number of items, at least 1.
        noun: Name of the items, in the plural.
    """
    stderr: TextIO | None = sys.stderr
    if stderr is not None and stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
            )
        except ModuleNotFoundError:
            pass
        else:
            columns = (
                TextColumn("  {task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task(noun, total=total)
                yield lambda: bar.advance(task)
            return
    with _lines(total, noun) as advance:
        yield advance


@contextmanager
def _lines(total: int, noun: str) -> Generator[Callable[[], None]]:
    began_s, done = monotonic(), 0

    def advance() -> None:
        nonlocal done
        done += 1
        if done % _LINES_EVERY == 0 or done == total:
            print_message(f"  {done:,} of {total:,} {noun}, {monotonic() - began_s:.1f} s")

    yield advance


@contextmanager
def reading() -> Generator[None]:
    """Show how much of each recording has been read, on a terminal and of large ones only."""
    stderr: TextIO | None = sys.stderr
    if stderr is None or not stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from latspan._model.recording.folder import watched_reading

    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)

    def show(read: int, total: int) -> None:
        if total < _SHORT_BYTES:
            return
        if read >= total:
            bar.stop()
            for task in bar.task_ids:
                bar.remove_task(task)
            return
        if not bar.task_ids:
            bar.add_task("reading the recording", total=total)
            bar.start()
        bar.update(bar.task_ids[0], completed=read)

    try:
        with watched_reading(show):
            yield
    finally:
        bar.stop()
