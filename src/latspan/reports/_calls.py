"""Complete terminal report on a set of calls: two waterfalls, the tables, and the summary."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._metrics import DEFAULT_EXPECTATIONS, Expectations
from latspan._recording import Snapshot
from latspan.reports._layout import shown
from latspan.reports._slow import calls_of, median_of, sentence, slowest_of
from latspan.reports._smoothness import SmoothnessTable
from latspan.reports._tables import MetricsTable, SegmentsTable, TokensTable
from latspan.reports._waterfall import Waterfall

__all__ = ["CallsReport"]

_WIDEST_PROSE: Final = 96


@dataclass(frozen=True, slots=True)
class CallsReport:
    """
    Terminal report of where the calls spent their time, from one call to the slowest tenth.

    Args:
        snapshot: Recorded data, with its records kept.
        expected: Configured expectations that streams were measured against.
    """

    snapshot: Snapshot
    expected: Expectations = DEFAULT_EXPECTATIONS

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the parts from the single request to the summary, separated by blank lines."""
        calls = calls_of(self.snapshot.records)
        median, slowest = median_of(calls), slowest_of(calls)
        if median is None or slowest is None:
            yield Text("no request was recorded")
            return
        of = f"of {len(calls):,}"
        if median is slowest:
            yield Waterfall(slowest, "the only request")
        else:
            yield Waterfall(median, f"median {of}", legend=False)
            yield ""
            yield Waterfall(slowest, f"slowest {of}")
        for table in (
            SegmentsTable(self.snapshot),
            MetricsTable(self.snapshot),
            SmoothnessTable(self.snapshot, self.expected),
            TokensTable(self.snapshot),
        ):
            yield ""
            yield table
        yield ""
        width = min(options.max_width, _WIDEST_PROSE)
        for line in textwrap.wrap(sentence(calls), width):
            yield shown(Text(line, style="bold"), options)
