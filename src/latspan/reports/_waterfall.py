"""Waterfall of one request on a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._drawing import waterfall
from latspan._recording import RequestRecord
from latspan.reports._layout import shown

__all__ = ["Waterfall"]


@dataclass(frozen=True, slots=True)
class Waterfall:
    """
    Waterfall of one request, as wide as the console that prints it.

    Args:
        record: The request.
        title: Its role among others, for example ``slowest of 40 calls``.
        legend: Whether to end with the meaning of the patterns and letters.
    """

    record: RequestRecord
    title: str
    legend: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines of the chart."""
        del console
        lines = waterfall(
            self.record,
            self.title,
            options.max_width,
            ascii_only=options.ascii_only,
            legend=self.legend,
        )
        for parts in lines:
            line = Text.assemble(*parts, no_wrap=True, overflow="ignore")
            line.rstrip()
            yield shown(line, options)
