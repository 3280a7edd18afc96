"""How a table stands on a terminal: a title, faint heads, columns as wide as what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

__all__ = ["FAINT", "MARGIN", "aligned", "heads", "title"]

MARGIN: Final = "  "
FAINT: Final = "bright_black"


def title(words: str, more: str = "") -> Text:
    """Return the line above a table."""
    return Text.assemble((words, "bold"), f", {more}" if more else "")


def heads(*names: str) -> tuple[Text, ...]:
    """Return the first row of a table."""
    return tuple(Text(name, style=FAINT) for name in names)


def aligned(rows: Sequence[Sequence[Text]], *, left: Sequence[int]) -> Iterator[Text]:
    """Yield a line a row, its columns as wide as needed and to the right unless in ``left``."""
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        line = Text(no_wrap=True, overflow="ignore")
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell.cell_len)
            line.append(MARGIN)
            line.append_text(cell + space if index in left else Text(space) + cell)
        line.rstrip()
        yield line
