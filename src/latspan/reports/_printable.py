"""Reports that ``print`` shows as text, rich's ``print`` in colour, and a notebook as HTML."""

from __future__ import annotations

import io
import shutil
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Printable"]

_WIDTH: Final = 100
"""Width of a report in characters where there is no terminal."""

_PRE: Final = (
    '<pre style="white-space:pre;overflow-x:auto;line-height:normal;'
    "font-family:Menlo,'DejaVu Sans Mono',consolas,'Courier New',monospace\">{code}</pre>"
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
        console = Console(record=True, width=width, file=io.StringIO(), highlight=False)
        console.print(self, crop=False)
        return console
