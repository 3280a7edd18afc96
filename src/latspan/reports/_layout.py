"""
Layout of a table on a terminal: a title, dim headings, columns as wide as their content.

Every line of a report passes through :func:`shown`, because names of models, stages and tags come
from outside and not every terminal has every character.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import ConsoleOptions
from rich.text import Text

from latspan._drawing import FAINT
from latspan._shown import printable

__all__ = ["MARGIN", "aligned", "heads", "prose", "shown", "title"]

MARGIN: Final = "  "

_LONGEST_CELL: Final = 200
"""Maximum length of a name in a table, in characters."""

_LONGEST_LINE: Final = 4_000
"""Maximum length of a line, in characters; no terminal is that wide."""

_WIDEST_PROSE: Final = 96

_TO_ASCII: Final = str.maketrans(
    {"—": "-", "·": "-", "█": "#", "▓": "=", "░": "-", "µ": "u", "≤": "<=", "…": "..."}
)


def shown(text: Text, options: ConsoleOptions, *, longest: int = _LONGEST_LINE) -> Text:
    """
    Return a text as the console can show it, on one line, without cursor movement.

    Args:
        text: Text from any source; changed in place.
        options: Options of the console that shows it.
        longest: Maximum number of characters to show.
    """
    plain = printable(text.plain, longest=longest)
    if options.ascii_only:
        plain = plain.translate(_TO_ASCII).encode("ascii", "backslashreplace").decode()
    text.plain = plain
    return text


def title(words: str, more: str = "", *, options: ConsoleOptions) -> Text:
    """Return the title line of a table."""
    return shown(Text.assemble((words, "bold"), f", {more}" if more else ""), options)


def heads(*names: str) -> tuple[Text, ...]:
    """Return the heading row of a table."""
    return tuple(Text(name, style=FAINT) for name in names)


def aligned(
    rows: Sequence[Sequence[Text]], *, left: Sequence[int], options: ConsoleOptions
) -> Iterator[Text]:
    """Yield one line per row; columns are as wide as needed, right-aligned unless in ``left``."""
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


def prose(text: str, options: ConsoleOptions, *, style: str = "", hanging: int = 0) -> Text:
    """Return a paragraph in lines of at most 96 characters, all but the first one indented."""
    width = min(options.max_width, _WIDEST_PROSE)
    wrapped = textwrap.wrap(text, width, subsequent_indent=" " * hanging)
    lines = [shown(Text(line), options).plain for line in wrapped]
    return Text("\n".join(lines), style=style, no_wrap=True, overflow="ignore")
