"""Progress display: a bar if stderr is a terminal, otherwise an occasional line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import Final, TextIO

from latspan.cli._console import print_message

__all__ = ["progress"]

_LINES_EVERY: Final = 10


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
