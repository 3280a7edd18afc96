"""Tables of ``latspan scorecard``: one per inference path, with a row per week and month."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.goals import Target
from latspan._model.metrics import DURATION, metric_named
from latspan._model.recording import text_of_unknown
from latspan._model.segments import KIND_NOUNS, Side
from latspan._model.text import FAINT, needs
from latspan._model.units import milliseconds
from latspan._study.render.layout import MARGIN, aligned, heads, shown, title
from latspan._study.scorecard import PERCENTILES, Card, Cycle, Figures, Ratio, Scorecard
from latspan._study.stats import TargetVerdict
from latspan.histogram import values_needed

CROSS_RULES: Final = (
    "Read these figures next to the outcomes of your product, for example tasks that users finish:",
    "operations better, outcomes flat: the problem is framed wrong",
    "outcomes better, operations worse: fix scale and ownership first",
)
"""How to read a scorecard: an introduction, and two rules."""

_WITHIN: Final = "within"
_GOODPUT: Final = "good/s"
_REQUESTS: Final = "requests"


@dataclass(frozen=True, slots=True)
class ScorecardTable:
    """
    The tables of a scorecard.

    If the terminal is too narrow, the confidence intervals are left out, then the least important
    columns.

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
    columns = _columns(card, cycle, intervals=True)
    lines = _lines(columns, options)
    if _is_too_wide(lines, options):
        columns = _columns(card, cycle, intervals=False)
        lines = _lines(columns, options)
    # The least important column first.
    for name in (_GOODPUT, *_further_medians(card), _REQUESTS, _WITHIN):
        if not _is_too_wide(lines, options):
            break
        columns.pop(name, None)
        lines = _lines(columns, options)
    yield from lines


def _columns(card: Card, cycle: Cycle, *, intervals: bool) -> dict[str, list[Text]]:
    """Return the cells of each column, by its heading."""
    rows = card.rows[cycle]
    figures = [row.figures for row in rows]
    columns = {
        str(cycle): [Text(row.period.label) for row in rows],
        _REQUESTS: [Text(f"{each.requests:,}") for each in figures],
    }
    for metric in card.metrics:
        for percentile in PERCENTILES:
            columns[_percentile_name(metric, percentile)] = [
                _percentile(each, metric, percentile) for each in figures
            ]
    columns["timeouts"] = [_ratio(each.timeouts, intervals=intervals) for each in figures]
    columns["completed"] = [_ratio(each.completed, intervals=intervals) for each in figures]
    if card.targets:
        columns[_WITHIN] = [_ratio(each.attainment, intervals=intervals) for each in figures]
        columns[_GOODPUT] = [_goodput(each) for each in figures]
    for index, target in enumerate(card.targets):
        columns[_target_name(target)] = [_verdict(each.verdicts[index]) for each in figures]
    return columns


def _lines(columns: dict[str, list[Text]], options: ConsoleOptions) -> list[Text]:
    rows = [heads(*columns), *zip(*columns.values(), strict=True)]
    return list(aligned(rows, left=(0,), options=options))


def _is_too_wide(lines: Sequence[Text], options: ConsoleOptions) -> bool:
    """Return whether the terminal is too narrow; a file or a program has no width."""
    return options.is_terminal and max(line.cell_len for line in lines) > options.max_width


def _further_medians(card: Card) -> Iterator[str]:
    """Yield the columns of medians of all metrics but the first."""
    for metric in card.metrics[1:]:
        yield _percentile_name(metric, PERCENTILES[0])


def _percentile_name(metric: str, percentile: float) -> str:
    name = metric_named(metric).abbreviation
    return f"p{percentile}" if name == DURATION else f"{name} p{percentile}"


def _target_name(target: Target) -> str:
    name = metric_named(target.metric).abbreviation
    return f"{name} p{target.percentile:g} ≤ {target.limit_ns / NS_PER_MS:,g} ms"


def _percentile(figures: Figures, metric: str, percentile: float) -> Text:
    bounds = figures.percentiles[metric][percentile]
    if bounds is None:
        has_values = figures.counts[metric].count
        return Text(needs(values_needed(percentile)) if has_values else "—", style=FAINT)
    if bounds.is_known:
        return Text(milliseconds(bounds.low))
    return Text(text_of_unknown(bounds, milliseconds, figures.counts[metric]))


def _ratio(ratio: Ratio | None, *, intervals: bool) -> Text:
    if ratio is None or ratio.value is None or ratio.low is None or ratio.high is None:
        return Text("—", style=FAINT)
    text = f"{_percent(ratio.value)} %"
    if ratio.undecided and ratio.most is not None:
        text = f"{_percent(ratio.value)} to {_percent(ratio.most)} %"
    if intervals:
        text += f" ({_percent(ratio.low)} to {_percent(ratio.high)})"
    return Text(text)


def _percent(share: float) -> str:
    """Return a fraction in percent with one decimal; only 0 is shown as 0, only 1 as 100."""
    return "<0.1" if 0 < share < 0.0005 else ">99.9" if 0.9995 <= share < 1 else f"{share:.1%}"[:-1]


def _goodput(figures: Figures) -> Text:
    least, most = figures.goodput_per_s, figures.most_goodput_per_s
    if least is None or most is None:
        return Text("—", style=FAINT)
    texts = dict.fromkeys((f"{least:,.2f}", f"{most:,.2f}"))
    return Text(" to ".join(texts))


def _verdict(verdict: TargetVerdict | None) -> Text:
    if verdict is None:
        return Text("—", style=FAINT)
    return Text(str(verdict), style=FAINT if verdict.needed else "")
