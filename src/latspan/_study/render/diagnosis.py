"""A diagnosis on a terminal: the conclusion, shares with intervals, evidence and one lever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._model.censoring import Bounds
from latspan._model.text import FAINT, count, letters, percent, style_of
from latspan._model.units import milliseconds
from latspan._study.diagnose import BudgetRow, Conclusion, Diagnosis, Share
from latspan._study.render.layout import MARGIN, Printable, aligned, heads, prose, shown, title
from latspan._study.stats import Verdict

_BAR: Final = 30
_MIN_SHARE: Final = 0.005
"""Share of a segment below which the table leaves it out."""


@dataclass(frozen=True, slots=True)
class DiagnosisReport(Printable):
    """
    Diagnosis of the one delay to fix.

    ``print`` shows it as text, rich's ``print`` in colour, and a notebook as HTML.

    Args:
        diagnosis: Conclusion, shares, cause, evidence and lever.
        is_brief: Whether to show only the sentence, the evidence, the lever, and how many units
            were given up.
    """

    diagnosis: Diagnosis
    is_brief: bool = False

    def __repr__(self) -> str:
        """Return the conclusion."""
        return f"<latspan.reports.DiagnosisReport: {self.diagnosis.sentence}>"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the parts, separated by blank lines."""
        del console
        diagnosis = self.diagnosis
        if not self.is_brief and diagnosis.attribution is not None:
            yield from _shares(diagnosis, options)
            yield Text()
        if not self.is_brief and any(row.limit_ns is not None for row in diagnosis.budget):
            yield from _budget(diagnosis.budget, options)
            yield Text()
        if not self.is_brief and diagnosis.attribution is None and diagnosis.group is not None:
            about = count(diagnosis.units, diagnosis.kind)
            yield title(diagnosis.subject, about, options=options)
        yield prose(diagnosis.sentence, options, style="bold")
        yield from _target(diagnosis, options)
        finding = diagnosis.finding
        if finding is not None and diagnosis.conclusion is not Conclusion.SPREAD_OUT:
            for sentence in finding.evidence:
                yield prose(f"- {sentence}", options)
            runner_up = diagnosis.runner_up
            attribution = diagnosis.attribution
            is_fix = diagnosis.conclusion is Conclusion.FIX
            if attribution is not None and runner_up is not None and is_fix:
                of = "of the difference" if attribution.by_excess else "of the time"
                part = percent(attribution.weight(runner_up))
                yield prose(f"- next is {runner_up.name}, with {part} {of}", options)
            yield prose(f"Try: {finding.lever}.", options, style="bold")
            yield prose(
                f"The cause, {finding.cause}, would be refuted if {finding.refuted_by}.",
                options,
                style=FAINT,
            )
        # The report that a brief diagnosis follows has the notes on the recording.
        notes = filter(None, (diagnosis.given_up,)) if self.is_brief else diagnosis.remarks
        for note in notes:
            yield prose(note, options, style=FAINT)


def _target(diagnosis: Diagnosis, options: ConsoleOptions) -> Iterator[Text]:
    """Yield the verdict on the limit, unless the conclusion is that it is met."""
    target, limit_ns = diagnosis.target, diagnosis.goal.limit_ns
    if target is None or limit_ns is None or diagnosis.conclusion is Conclusion.NOTHING_TO_FIX:
        return
    counts = [f"{target.misses:,} of {target.requests:,} missed it"]
    if target.undecided:
        counts.append(f"{target.undecided:,} were given up before it")
    if target.verdict is Verdict.UNDECIDED:
        counts.append(f"{target.needed:,} more without a miss would prove it met")
    yield prose(
        f"The limit of {milliseconds(limit_ns)} is {target.verdict}: {', '.join(counts)}.", options
    )


def _shares(diagnosis: Diagnosis, options: ConsoleOptions) -> Iterator[Text]:
    attribution = diagnosis.attribution
    if attribution is None:
        return
    value = diagnosis.value_ns or Bounds(attribution.value_ns, attribution.value_ns)
    text = value.text(milliseconds, unbounded="unbounded")
    about = f"{text}, {count(diagnosis.units, diagnosis.kind)}"
    yield title(diagnosis.subject, about, options=options)
    yield shown(
        Text(
            f"{MARGIN}mean of the slowest {len(attribution.tail):,},"
            f" and of the {len(attribution.typical):,} typical ones",
            style=FAINT,
        ),
        options,
    )
    rows = [_row(share) for share in attribution.shares if share.share >= _MIN_SHARE]
    head = heads("segment", "slow", "typical", "share", "90 % interval", "", "")
    yield from aligned([head, *rows], left=(0, 5, 6), options=options)


def _row(share: Share) -> list[Text]:
    source = share.source
    return [
        Text(share.name),
        Text(milliseconds(round(share.mean_ns))),
        Text(milliseconds(round(share.typical_ns))),
        Text(percent(share.share)),
        Text(f"{percent(share.low)} to {percent(share.high)}"),
        Text(letters({source: 1})),
        Text(_bar(share), style=style_of(source)),
    ]


def _bar(share: Share) -> str:
    """Return a bar up to the share, and a line over the interval."""
    low, at, high = (round(_BAR * each) for each in (share.low, share.share, share.high))
    return "█" * low + "▓" * max(at - low, 0) + "░" * max(high - max(at, low), 0)


def _budget(rows: tuple[BudgetRow, ...], options: ConsoleOptions) -> Iterator[Text]:
    yield title("budget", "mean of slow requests", options=options)
    table: list[Sequence[Text]] = [heads("component", "actual", "limit", "over")]
    for row in rows:
        if not row.actual_ns and row.limit_ns is None:
            continue
        over = row.overrun_ns
        table.append(
            [
                Text(row.label),
                Text(milliseconds(round(row.actual_ns))),
                Text("—" if row.limit_ns is None else milliseconds(row.limit_ns)),
                Text(milliseconds(round(over)) if over > 0 else "", style="red"),
            ]
        )
    yield from aligned(table, left=(0,), options=options)
