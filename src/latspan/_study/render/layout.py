"""
Layout of a report on a terminal or in a notebook.

A table has a title, dim headings, and columns as wide as their content. Every line of a report
passes through :func:`shown`, because names of models, stages and tags come from outside and not
every terminal has every character.
"""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._base.shown import printable
from latspan._model.text import FAINT

MARGIN: Final = "  "

_WIDTH: Final = 100
"""Width of a report in characters where there is no terminal."""

_PRE: Final = (
    '<pre style="white-space:pre;overflow-x:auto;line-height:normal;'
    "font-family:Menlo,'DejaVu Sans Mono',consolas,'Courier New',monospace\">{code}</pre>"
)

_MAX_CELL_LENGTH: Final = 200
"""Maximum length of a name in a table, in characters."""

_MAX_LINE_LENGTH: Final = 4_000
"""Maximum length of a line, in characters; no terminal is that wide."""

_WIDEST_PROSE: Final = 96

_MIN_NAME_WIDTH: Final = 12
"""Length to which a narrow terminal may shorten the names of a column."""

_TO_ASCII: Final = str.maketrans(
    {"—": "-", "·": "-", "█": "#", "▓": "=", "░": "-", "µ": "u", "≤": "<=", "…": "..."}
)


class Printable:
    """Base of a report, which defines only ``__rich_console__``."""

    __slots__ = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the parts of the report."""
        raise NotImplementedError

    def __str__(self) -> str:
        """Return the report as plain text, as wide as the terminal."""
        return self._drawn(shutil.get_terminal_size((_WIDTH, 24)).columns).export_text()

    def _repr_html_(self) -> str:
        """Return the report as HTML, for notebooks."""
        return self._drawn(_WIDTH).export_html(inline_styles=True, code_format=_PRE)

    def _drawn(self, width: int) -> Console:
        # In a notebook, a console would display what is printed to it.
        console = Console(
            record=True, width=width, file=io.StringIO(), highlight=False, force_jupyter=False
        )
        console.print(self, crop=False)
        return console


def shown(text: Text, options: ConsoleOptions, *, max_length: int = _MAX_LINE_LENGTH) -> Text:
    """
    Return a text as the console can show it, on one line, without cursor movement.

    Args:
        text: Text from any source; changed in place.
        options: Options of the console that shows it.
        max_length: Maximum number of characters to show.
    """
    plain = printable(text.plain, max_length=max_length)
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
    rows: Sequence[Sequence[Text]],
    *,
    left: Sequence[int],
    options: ConsoleOptions,
    max_length: int = _MAX_CELL_LENGTH,
) -> Iterator[Text]:
    """Yield one line per row; columns are as wide as needed, right-aligned unless in ``left``."""
    rows = [[shown(cell, options, max_length=max_length) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        line = Text(no_wrap=True, overflow="ignore")
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell.cell_len)
            line.append(MARGIN)
            line.append_text(cell + space if index in left else Text(space) + cell)
        line.rstrip()
        yield line


def fitted(
    columns: Mapping[str, Sequence[Text]],
    *,
    left: Collection[str],
    left_out_first: Sequence[str],
    names: Sequence[str],
    sentences: str = "",
    options: ConsoleOptions,
) -> tuple[list[Text], tuple[str, ...]]:
    """
    Return the lines of a table that is at most as wide as the terminal, and what was left out.

    Columns are left out first; if that is not enough, names are shortened. A file or a program has
    no width and receives the whole table.

    Args:
        columns: Cells of each column, by its heading.
        left: Columns that are aligned to the left.
        left_out_first: Columns left out on a narrow terminal, in this order.
        names: Columns whose cells may be shortened.
        sentences: Last column, whose cells are cut at their end; empty if there is none.
        options: Options of the console that shows it.
    """
    kept = {head: list(cells) for head, cells in columns.items()}
    max_length = _MAX_LINE_LENGTH if sentences else _MAX_CELL_LENGTH
    lines = _lines(kept, left, options, max_length)
    for head in left_out_first:
        if _excess(lines, options) <= 0:
            break
        kept.pop(head, None)
        lines = _lines(kept, left, options, max_length)
    widths = {head: max((cell.cell_len for cell in kept[head]), default=0) for head in names}
    for head in sorted(widths, key=widths.__getitem__, reverse=True):
        excess = _excess(lines, options)
        if excess <= 0:
            break
        width = max(widths[head] - excess, _MIN_NAME_WIDTH)
        kept[head] = [Text(shortened(cell.plain, width)) for cell in kept[head]]
        lines = _lines(kept, left, options, max_length)
    if sentences and _excess(lines, options) > 0:
        # The other columns are as wide as before, so that each line is cut in the last one only.
        width = options.max_width - (2 if options.ascii_only else 0)
        for line in lines:
            line.truncate(width, overflow="ellipsis")
            shown(line, options)
    return lines, tuple(head for head in columns if head not in kept)


def _lines(
    columns: Mapping[str, Sequence[Text]],
    left: Collection[str],
    options: ConsoleOptions,
    max_length: int,
) -> list[Text]:
    rows = [heads(*columns), *zip(*columns.values(), strict=True)]
    at_left = [at for at, head in enumerate(columns) if head in left]
    return list(aligned(rows, left=at_left, options=options, max_length=max_length))


def _excess(lines: Iterable[Text], options: ConsoleOptions) -> int:
    """Return by how many columns the terminal is too narrow."""
    widest = max(line.cell_len for line in lines)
    return widest - options.max_width if options.is_terminal else 0


def shortened(name: str, max_length: int) -> str:
    """Return a name with an ellipsis in its middle: long names often differ at their end only."""
    # Escapes of characters that are not printable are longer than the characters.
    name = printable(name, max_length=4 * len(name) + 3)
    if len(name) <= max_length:
        return name
    tail = (max_length - 1) // 3
    return f"{name[: max_length - 1 - tail]}…{name[-tail:]}"


def prose(text: str, options: ConsoleOptions, *, style: str = "", hanging: int = 0) -> Text:
    """Return a paragraph in lines of at most 96 characters, all but the first one indented."""
    width = min(options.max_width, _WIDEST_PROSE)
    wrapped = textwrap.wrap(text, width, subsequent_indent=" " * hanging)
    lines = [shown(Text(line), options).plain for line in wrapped]
    return Text("\n".join(lines), style=style, no_wrap=True, overflow="ignore")
