"""
How a table stands on a terminal: a title, faint heads, columns as wide as what is in them.

Every line of a report leaves through :func:`shown`: names of models, stages and tags are of others,
and not every terminal has every character.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import ConsoleOptions
from rich.text import Text

from latspan._shown import printable

__all__ = ["FAINT", "MARGIN", "aligned", "heads", "shown", "title"]

MARGIN: Final = "  "
FAINT: Final = "bright_black"

_LONGEST_CELL: Final = 200
"""Characters of a name in a table."""

_LONGEST_LINE: Final = 4_000
"""Characters of a line; no terminal is as wide."""

_TO_ASCII: Final = str.maketrans({"—": "-", "·": "-", "█": "#", "…": "..."})


def shown(text: Text, options: ConsoleOptions, *, longest: int = _LONGEST_LINE) -> Text:
    """
    Return a text as the console can show it, on one line that moves no cursor.

    Args:
        text: Of anybody; changed in place.
        options: Of the console that shows it.
        longest: Characters to show at most.
    """
    plain = printable(text.plain, longest=longest)
    if options.ascii_only:
        plain = plain.translate(_TO_ASCII).encode("ascii", "backslashreplace").decode()
    text.plain = plain
    return text


def title(words: str, more: str = "", *, options: ConsoleOptions) -> Text:
    """Return the line above a table."""
    return shown(Text.assemble((words, "bold"), f", {more}" if more else ""), options)


def heads(*names: str) -> tuple[Text, ...]:
    """Return the first row of a table."""
    return tuple(Text(name, style=FAINT) for name in names)


def aligned(
    rows: Sequence[Sequence[Text]], *, left: Sequence[int], options: ConsoleOptions
) -> Iterator[Text]:
    """Yield a line a row, its columns as wide as needed and to the right unless in ``left``."""
    rows = [[shown(cell, options, longest=_LONGEST_CELL) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        line = Text(no_wrap=True, overflow="ignore")
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell.cell_len)
            line.append(MARGIN)
            line.append_text(cell + space if index in left else Text(space) + cell)
        line.rstrip()
        yield line
