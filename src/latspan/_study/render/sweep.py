"""
A sweep on a terminal: one row per inference path, latency and inputs side by side.

The columns of the inputs show the change against the baseline, or against the previous sweep if no
baseline is pinned, as the latency does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._model.text import FAINT, count, in_words, listed, needs, percent, span_of_time
from latspan._study.compare import Judgement, Run
from latspan._study.render.comparison import JUDGEMENT_STYLES, change_of, value_of
from latspan._study.render.layout import MARGIN, fitted, prose, shown, title
from latspan._study.render.measurement import load_in_words
from latspan._study.stats import Verdict
from latspan._study.sweep import Against, PathSweep, SweepAnswer
from latspan.histogram import values_needed

_FINDING_STYLES: Final = {
    SweepAnswer.NO_DRIFT: "green",
    SweepAnswer.DRIFT: "bold red",
    SweepAnswer.INCONCLUSIVE: "yellow",
    SweepAnswer.NOT_INTERPRETABLE: "bold red",
}
_VERDICT_STYLES: Final = {Verdict.MET: "green", Verdict.MISSED: "red", Verdict.UNDECIDED: "yellow"}
_IN_COLUMNS: Final = frozenset({"input_length", "output_length", "cached"})
"""Inputs that have a column of their own."""
_NONE: Final = "—"
_NUMBERS: Final = frozenset({"requests", "now", "input", "output", "cached"})
"""Columns that are aligned to the right."""
_LEFT_OUT_FIRST: Final = (
    *("inputs that changed", "cached", "output", "input"),
    *("goal", "requests", "previous", "target"),
)
"""Columns left out on a narrow terminal, in this order; a line below has their content."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """
    Inputs of some runs; ``None`` where they are unknown.

    Args:
        models: Models that answered.
        input_tokens: Mean number of input tokens.
        output_tokens: Mean number of output tokens.
        cached: Cached fraction of the input.
    """

    models: tuple[str, ...]
    input_tokens: float | None
    output_tokens: float | None
    cached: float | None


def inputs_of(runs: Sequence[Run]) -> Inputs:
    """Return the inputs of some runs: means over the runs in which they are known."""
    profiles = [run.profile for run in runs]
    return Inputs(
        tuple(sorted({model for each in profiles for model in each.models})),
        _mean([each.input_tokens for each in profiles]),
        _mean([each.output_tokens for each in profiles]),
        _mean([each.cached for each in profiles]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class SweepReport:
    """
    A sweep.

    Args:
        paths: Its inference paths.
        errors: Why other paths were not measured, by their name.
        notes: What a reader must know, one sentence each.
        traffic: Requests by the name of the path, if paths were ranked by them.
    """

    paths: Sequence[PathSweep]
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: Sequence[str] = ()
    traffic: Mapping[str, int] | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, and a paragraph for each path that needs attention."""
        del console
        if self.paths:
            yield from self._table(options)
        for each in self.paths:
            if each.finding is not SweepAnswer.NO_DRIFT:
                yield Text()
                style = _FINDING_STYLES[each.finding]
                yield prose(
                    f"{each.name}: {in_words(each.finding)}. {each.sentence}", options, style=style
                )
            # Without a valid run, the sentence has the reason.
            for reason in each.invalid if each.runs else ():
                yield prose(f"{each.name}: a run is left out: {reason}.", options, style=FAINT)
        for name, reason in self.errors.items():
            yield shown(Text.assemble((name, "bold"), f": not measured: {reason}"), options)
        for note in self.notes:
            yield prose(note, options, style=FAINT)

    def _table(self, options: ConsoleOptions) -> Iterator[Text]:
        rows = [_cells(each, self.traffic) for each in self.paths]
        columns = {head: [row[head] for row in rows] for head in rows[0]}
        lines, left_out = fitted(
            columns,
            left=columns.keys() - _NUMBERS,
            left_out_first=_LEFT_OUT_FIRST,
            names=("path",),
            options=options,
        )
        yield from lines
        # What a narrow terminal has no column for is one line per path, so that nothing is lost.
        for row in rows if left_out else ():
            texts = [(head, row[head].plain) for head in left_out]
            known = [f"{head} {text}" for head, text in texts if text not in ("", _NONE)]
            if known:
                text = f"{row['path'].plain}: {', '.join(known)}"
                yield prose(text, options, style=FAINT, hanging=len(MARGIN))


def _cells(found: PathSweep, traffic: Mapping[str, int] | None) -> dict[str, Text]:
    """Return the cells of a path, by the heading of their column."""
    requests = {} if traffic is None else {"requests": Text(f"{traffic.get(found.name, 0):,}")}
    reference = found.reference
    now = inputs_of(found.runs)
    then = None if reference is None else inputs_of(reference.runs)
    return {
        "path": Text(found.name),
        **requests,
        "finding": Text(in_words(found.finding), style=_FINDING_STYLES[found.finding]),
        "target": _target(found),
        "goal": Text(_NONE if found.goal is None else str(found.goal)),
        "now": Text(_value(found)),
        "baseline": _against(found.baseline),
        "previous": _against(found.previous),
        "input": Text(_length(now.input_tokens, None if then is None else then.input_tokens)),
        "output": Text(_length(now.output_tokens, None if then is None else then.output_tokens)),
        "cached": Text(_cached(now.cached, None if then is None else then.cached)),
        "inputs that changed": Text(_changed(reference)),
    }


def _target(found: PathSweep) -> Text:
    verdict = found.verdict
    if verdict is None:
        return Text(_NONE)
    needed = [
        each.verdict.needed
        for each in found.targets
        if each.verdict is not None and each.verdict.verdict is Verdict.UNDECIDED
    ]
    is_open = verdict is Verdict.UNDECIDED and needed
    text = f"needs {max(needed):,} more" if is_open else str(verdict)
    return Text(text, style=_VERDICT_STYLES[verdict])


def _value(found: PathSweep) -> str:
    if found.goal is None:
        return _NONE
    if found.value_ns is None:
        return needs(values_needed(found.goal.percentile))
    return value_of(found.value_ns)


def _against(against: Against | None) -> Text:
    if against is None:
        return Text("none", style=FAINT)
    if against.comparison is None:
        return Text(in_words(against.judgement), style=JUDGEMENT_STYLES[against.judgement])
    found = against.comparison
    blocking = [each.name for each in found.differences if each.blocks]
    text = f"differs: {blocking[0]}" if blocking else in_words(found.judgement)
    if found.judgement is Judgement.INCONCLUSIVE:
        text = "could be chance" if found.goal.ratio is not None else in_words(found.judgement)
    return Text(f"{change_of(found.goal)} {text}", style=JUDGEMENT_STYLES[found.judgement])


def _length(now: float | None, then: float | None) -> str:
    if now is None:
        return _NONE
    change = f" ({now / then - 1:+.0%})" if then else ""
    return f"{now:,.0f}{change}"


def _cached(now: float | None, then: float | None) -> str:
    if now is None:
        return _NONE
    return percent(now) if then is None else f"{percent(now)} (was {percent(then)})"


def _changed(against: Against | None) -> str:
    if against is None:
        return ""
    names = (each.name for each in against.inputs if each.name not in _IN_COLUMNS)
    return ", ".join(dict.fromkeys(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRow:
    """
    One inference path of a plan.

    Args:
        name: Its name.
        load: What defines its load.
        requests: Measured requests per run; ``None`` if the duration limits them.
        traffic: Number of its requests in the traffic; ``None`` without traffic.
        last: Date of its newest measurement or sweep; ``None`` without one.
        changed: Parts of its file that changed since then; ``None`` without one.
        seconds: How long all its runs probably take; ``None`` if that is not known.
    """

    name: str
    load: Mapping[str, Any]
    requests: int | None
    traffic: int | None
    last: str | None
    changed: tuple[str, ...] | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class SweepPlanTable:
    """
    What a sweep would do.

    Args:
        rows: Its inference paths.
        runs: Runs per path.
        errors: Why other paths would not be measured, by their name.
        notes: What a reader must know, one sentence each.
    """

    rows: Sequence[PlannedRow]
    runs: int
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table and its sum."""
        del console
        if self.rows:
            yield title("sweep", f"{count(self.runs, 'run')} of each path", options=options)
            yield from self._table(options)
            known = [each.seconds for each in self.rows if each.seconds is not None]
            unknown = len(self.rows) - len(known)
            parts = [f"about {span_of_time(sum(known))}"] if known else []
            if unknown:
                parts.append(f"{count(unknown, 'path')} whose time is not known yet")
            yield shown(Text(f"{MARGIN}in all: {listed(parts)}"), options)
        for name, reason in self.errors.items():
            yield shown(Text.assemble((name, "bold"), f": cannot be measured: {reason}"), options)
        for note in self.notes:
            yield prose(note, options, style=FAINT)

    def _table(self, options: ConsoleOptions) -> Iterator[Text]:
        rows: list[dict[str, Text]] = []
        for each in self.rows:
            changed = _NONE if each.changed is None else ", ".join(each.changed) or "nothing"
            requests = _NONE if each.requests is None else f"{self.runs} x {each.requests:,}"
            rows.append(
                {
                    "path": Text(each.name),
                    "traffic": Text(_NONE if each.traffic is None else f"{each.traffic:,}"),
                    "load": Text(load_in_words(each.load)),
                    "requests": Text(requests),
                    "time": Text("unknown" if each.seconds is None else span_of_time(each.seconds)),
                    "last result": Text(each.last or _NONE),
                    "changed since": Text(changed),
                }
            )
        lines, _ = fitted(
            {head: [row[head] for row in rows] for head in rows[0]},
            left=("path", "load", "last result", "changed since"),
            left_out_first=("last result", "traffic", "changed since", "load"),
            names=("path",),
            options=options,
        )
        yield from lines
