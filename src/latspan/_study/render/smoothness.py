"""
Table of felt speed: when text appeared and how smoothly it streamed for a person who reads along.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._model.metrics import (
    DEFAULT_EXPECTATIONS,
    FELT_SPEED,
    METRICS,
    MORE_IS_BETTER,
    Expectations,
)
from latspan._model.recording import Distribution
from latspan._model.text import FAINT, count, letters, percent
from latspan._model.units import milliseconds
from latspan._study.render.group import Group
from latspan._study.render.layout import MARGIN, aligned, heads, shown, title
from latspan._study.render.tables import percentile_text


@dataclass(frozen=True, slots=True)
class SmoothnessTable:
    """
    Table of the best, the median and the worst call by each measure, and a line on stalls.

    Args:
        group: Calls to show.
        expected: Configured expectations that streams were measured against.
    """

    group: Group
    expected: Expectations = DEFAULT_EXPECTATIONS

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, the table and the line."""
        del console
        first, each = self.expected.first_token_ns, self.expected.token_ns
        yield title(
            "felt speed",
            f"tokens due after {first / NS_PER_MS:,g} ms, then each {each / NS_PER_MS:,g} ms;"
            f" {self._reading()}",
            options=options,
        )
        rows = [heads("", "n", "best", "median", "worst", "source")]
        for name in FELT_SPEED:
            values = self.group.snapshot.metric(name, kind=self.group.kind)
            rows.append(
                (
                    Text(METRICS[name].heading),
                    Text(f"{values.count():,}"),
                    *_best_median_worst(values),
                    Text(letters(values.sources)),
                )
            )
        yield from aligned(rows, left=(0, 5), options=options)
        yield shown(Text(f"{MARGIN}stalls: {self._stalls()}"), options)

    def _reading(self) -> str:
        if not self.expected.reading_ns:
            return "read at once"
        return f"read at {NS_PER_S / self.expected.reading_ns:,g}/s"

    def _stalls(self) -> str:
        calls = self.group.records
        counted = [call.metrics["stall_count"] for call in calls if "stall_count" in call.metrics]
        if not counted:
            return "unknown, no call had a gap to measure"
        limit = f"{self.expected.stall_ns / NS_PER_MS:,g} ms"
        stalled = sum(value.value > 0 for value in counted)
        if not stalled:
            return f"none, no gap over {limit} in {count(len(counted), 'call')}"
        gaps = sum(value.value for value in counted)
        beyond_ns = sum(
            call.metrics["stall_duration"].value
            for call in calls
            if "stall_duration" in call.metrics
        )
        return (
            f"{count(gaps, 'gap')} over {limit} in {stalled:,} of"
            f" {count(len(counted), 'call')}, {milliseconds(beyond_ns)} beyond it in all"
        )


def _best_median_worst(values: Distribution) -> tuple[Text, Text, Text]:
    if not values.count():
        return Text("—", style=FAINT), Text("—", style=FAINT), Text("—", style=FAINT)

    def text_of(value: float) -> str:
        if METRICS[values.name].unit == "ratio":
            return percent(value)
        # Unlike a duration, these values may be zero.
        return milliseconds(value) if value else "0 ms"

    ends = [Text(text_of(each)) for each in (values.min(unit="ns"), values.max(unit="ns"))]
    if values.name in MORE_IS_BETTER:
        ends.reverse()
    return ends[0], percentile_text(values, 50, text_of), ends[1]
