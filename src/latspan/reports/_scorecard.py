"""Tables of ``latspan scorecard``: one per inference path, with a row per week and month."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._drawing import FAINT, milliseconds, needs
from latspan._segments import KIND_NOUNS, Side
from latspan._study.scorecard import PERCENTILES, UNBOUNDED, Card, Cycle, Figures, Ratio, Scorecard
from latspan._study.stats import TargetVerdict
from latspan.histogram import values_needed
from latspan.reports._layout import MARGIN, aligned, heads, shown, title

__all__ = ["CROSS_RULES", "ScorecardTable"]

CROSS_RULES: Final = (
    "Read these figures next to the outcomes of your product, for example tasks that users finish:",
    "operations better, outcomes flat: the problem is framed wrong",
    "outcomes better, operations worse: fix scale and ownership first",
)
"""How to read a scorecard: an introduction, and two rules."""

_SHORT: Final = {
    "time_to_first_token": "ttft",
    "time_to_first_visible_token": "ttfv",
    "time_per_output_token": "tpot",
}


@dataclass(frozen=True, slots=True)
class ScorecardTable:
    """
    The tables of a scorecard.

    If the terminal is too narrow, the confidence intervals are left out.

    Args:
        scorecard: The scorecard.
        notes: Further sentences for the reader.
    """

    scorecard: Scorecard
    notes: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one table per inference path and cycle, and the rules."""
        del console
        for card in self.scorecard.cards:
            yield title(*_heading(card, self.scorecard.by), options=options)
            for cycle, rows in card.rows.items():
                if rows:
                    yield from _table(card, cycle, options)
                    yield Text()
        for note in self.notes:
            yield shown(Text(note, style=FAINT), options)
        introduction, *rules = CROSS_RULES
        yield shown(Text(introduction), options)
        for rule in rules:
            yield shown(Text(MARGIN + rule), options)


def _heading(card: Card, by: str) -> tuple[str, str]:
    noun = KIND_NOUNS[card.kind][1]
    if card.side is Side.SERVER:
        noun = f"{noun} at the server"
    return (f"{noun} without {by}", "") if card.group is None else (card.group, noun)


def _table(card: Card, cycle: Cycle, options: ConsoleOptions) -> Iterator[Text]:
    lines = list(_lines(card, cycle, options, intervals=True))
    if options.is_terminal and max(line.cell_len for line in lines) > options.max_width:
        lines = list(_lines(card, cycle, options, intervals=False))
    yield from lines


def _lines(card: Card, cycle: Cycle, options: ConsoleOptions, *, intervals: bool) -> Iterator[Text]:
    names = [
        f"{_SHORT.get(metric, metric)} p{percentile}"
        for metric in card.metrics
        for percentile in PERCENTILES
    ]
    targets = [
        f"{_SHORT.get(each.metric, each.metric)} p{each.percentile:g}"
        f" ≤ {milliseconds(each.limit_ns)}"
        for each in card.targets
    ]
    judged = ("within", "good/s") if card.targets else ()
    head = heads(cycle, "requests", *names, "timeouts", "completed", *judged, *targets)
    rows = [
        (
            Text(row.period.label),
            Text(f"{row.figures.requests:,}"),
            *_percentiles(row.figures, card.metrics),
            _ratio(row.figures.timeouts, intervals=intervals),
            _ratio(row.figures.completed, intervals=intervals),
            *(_judged(row.figures, intervals=intervals) if card.targets else ()),
            *map(_verdict, row.figures.verdicts),
        )
        for row in card.rows[cycle]
    ]
    yield from aligned([head, *rows], left=(0,), options=options)


def _percentiles(figures: Figures, metrics: Sequence[str]) -> Iterator[Text]:
    for metric in metrics:
        for percentile, value in figures.percentiles[metric].items():
            if value is None:
                yield Text(
                    needs(values_needed(percentile)) if figures.counts[metric] else "—",
                    style=FAINT,
                )
            else:
                yield Text("failed" if value == UNBOUNDED else milliseconds(value))


def _ratio(ratio: Ratio | None, *, intervals: bool) -> Text:
    if ratio is None or ratio.value is None or ratio.low is None or ratio.high is None:
        return Text("—", style=FAINT)
    text = f"{_percent(ratio.value)} %"
    if intervals:
        text += f" ({_percent(ratio.low)} to {_percent(ratio.high)})"
    return Text(text)


def _percent(share: float) -> str:
    """Return a fraction in percent with one decimal; only 0 is shown as 0, only 1 as 100."""
    return "<0.1" if 0 < share < 0.0005 else ">99.9" if 0.9995 <= share < 1 else f"{share:.1%}"[:-1]


def _judged(figures: Figures, *, intervals: bool) -> Iterator[Text]:
    yield _ratio(figures.attainment, intervals=intervals)
    goodput = figures.goodput_per_s
    yield Text("—", style=FAINT) if goodput is None else Text(f"{goodput:,.2f}")


def _verdict(verdict: TargetVerdict) -> Text:
    return Text(str(verdict), style=FAINT if verdict.needed else "")
