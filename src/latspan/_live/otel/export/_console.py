"""Finished requests on stderr, one line each, for a developer who watches the program."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from latspan._base.shown import printable
from latspan._model.recording import RequestRecord
from latspan._model.segments import Kind
from latspan._model.text import line_of, waterfall

_KINDS: Final = frozenset({Kind.REQUEST, Kind.CALL})
_LIMIT: Final = 1_000
"""Maximum number of requests that wait to be printed. A terminal may be stopped with Ctrl-S."""

_WIDTH: Final = 100


class ConsoleLines:
    """
    Printer of finished requests and calls.

    A thread of its own prints, because stderr may be a pipe that no process reads. If too many
    requests wait, further ones are left out, and a later line states how many.

    Args:
        submit: Runs a function on that thread.
        waiting: Returns the number of functions that wait for it.
        waterfalls: Whether a waterfall follows each line.
    """

    def __init__(
        self,
        submit: Callable[[Callable[[], None]], None],
        waiting: Callable[[], int],
        *,
        waterfalls: bool,
    ) -> None:
        self._submit = submit
        self._waiting = waiting
        self._waterfalls = waterfalls
        self._left_out = 0

    def write(self, record: RequestRecord) -> None:
        """Print a request or a call; other kinds are not printed."""
        if record.kind not in _KINDS:
            return
        if self._waiting() >= _LIMIT:
            self._left_out += 1
            return
        left_out, self._left_out = self._left_out, 0
        self._submit(partial(self._print, record, left_out))

    def _print(self, record: RequestRecord, left_out: int) -> None:
        lines = list(self._lines(record))
        if left_out:
            lines.insert(0, f"{left_out:,} lines were left out, because printing was too slow")
        stderr = sys.stderr
        # It is `None` if it was closed before the process began.
        if stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
            try:
                stderr.write("".join(f"latspan: {line}".rstrip() + "\n" for line in lines))
                stderr.flush()
            except (OSError, ValueError):
                return

    def _lines(self, record: RequestRecord) -> Iterator[str]:
        yield line_of(record)
        if self._waterfalls:
            width = shutil.get_terminal_size((_WIDTH, 24)).columns - len("latspan: ")
            drawn = waterfall(record, record.kind.value, width, legend=False)
            # The line above has what the title of the waterfall shows.
            next(drawn, None)
            for parts in drawn:
                yield printable("".join(text for text, _ in parts), max_length=4_000)
