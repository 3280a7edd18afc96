"""Result of a load test on a terminal: percentiles, load, validity and verdicts, step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._model.censoring import Bounds
from latspan._model.metrics import metric_named
from latspan._model.segments import CUT, Outcome
from latspan._model.text import FAINT, count, listed, needs, percent
from latspan._model.units import milliseconds
from latspan._study.measurement import Measurement, Origin, StepSummary, TargetResult
from latspan._study.render.layout import MARGIN, aligned, heads, prose, shown, title
from latspan._study.stats import Verdict
from latspan.histogram import values_needed

_PERCENTILES: Final = (50, 95, 99)
_STYLES: Final = {Verdict.MET: "green", Verdict.MISSED: "red", Verdict.UNDECIDED: "yellow"}


@dataclass(frozen=True, slots=True)
class MeasurementReport:
    """
    Result of a load test.

    Args:
        measurement: Its summary.
    """

    measurement: Measurement

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the tables of each step, and what is missing in the recording."""
        del console
        measurement = self.measurement
        for step in measurement.steps:
            yield from _step(step, measurement, options)
            yield Text()
        if not measurement.ended:
            text = "INVALID: the process that measured did not end in order"
            yield shown(Text(text, style="bold red"), options)
        for note in measurement.notes:
            yield shown(Text(note, style=FAINT), options)


def load_in_words(load: Mapping[str, Any]) -> str:
    """Return a load in words, for example ``5 requests/s, poisson (open loop)``."""
    concurrency = load.get("concurrency")
    if concurrency is not None:
        return f"{concurrency:,} in flight (closed loop)"
    pattern = load["pattern"]
    if "burstiness" in load:
        pattern = f"gamma with burstiness {load['burstiness']:g}"
    if "speed" in load:
        pattern = f"recorded arrivals at {load['speed']:g} times their speed"
    return f"{load['rate_per_s']:,.4g} requests/s, {pattern} (open loop)"


def _step(step: StepSummary, measurement: Measurement, options: ConsoleOptions) -> Iterator[Text]:
    yield title(
        measurement.name,
        f"{load_in_words(step.load)}, {count(step.measured, measurement.kind.value)} measured",
        options=options,
    )
    percentiles = sorted({*_PERCENTILES, measurement.percentile})
    yield from _latencies(step, percentiles, options)
    yield from _load(step, options)
    for caveat in step.caveats:
        word, style = ("INVALID", "bold red") if caveat.invalidates else ("note", "yellow")
        yield shown(Text.assemble((word, style), f": {caveat.text}"), options)
        if caveat.hint:
            yield shown(Text(f"hint: {caveat.hint}", style=FAINT), options)
    for result in step.targets:
        yield shown(_target(result, step), options)


def _latencies(
    step: StepSummary, percentiles: Sequence[float], options: ConsoleOptions
) -> Iterator[Text]:
    names = [f"p{each:g}" for each in percentiles]
    rows = [heads("metric", "from", "requests", "n", *names)]
    for latency in step.latencies.values():
        # Among all, a failed request takes forever, and one that was given up at least its time.
        is_incomplete = latency.failed or latency.cut
        for requests in ("all", "completed") if is_incomplete else ("all",):
            is_all = requests == "all"
            number = latency.count if is_all else len(latency.values_ns)
            cells = [
                _bounds_cell(latency.all(each), each)
                if is_all
                else _cell(latency.completed(each), each)
                for each in percentiles
            ]
            rows.append(
                (
                    Text(metric_named(latency.metric).heading),
                    Text(latency.origin.value),
                    Text(requests),
                    Text(f"{number:,}"),
                    *cells,
                )
            )
    has_failures = any(each.failed or each.cut for each in step.latencies.values())
    if not has_failures:
        rows = [(*row[:2], *row[3:]) for row in rows]
    yield from aligned(rows, left=(0, 1, 2) if has_failures else (0, 1), options=options)


def _cell(value: float | None, percentile: float) -> Text:
    if value is None:
        return Text(needs(values_needed(percentile)), style=FAINT)
    return Text("unbounded", style="red") if math.isinf(value) else Text(milliseconds(value))


def _bounds_cell(bounds: Bounds | None, percentile: float) -> Text:
    if bounds is None or bounds.low == bounds.high:
        return _cell(None if bounds is None else bounds.low, percentile)
    return Text(bounds.text(milliseconds, unbounded="unbounded"), style="yellow")


def _load(step: StepSummary, options: ConsoleOptions) -> Iterator[Text]:
    for line in (_rates(step), _generator(step), _failures(step), _cache(step)):
        if line:
            yield prose(f"{MARGIN}{line}", options, style=FAINT, hanging=2 * len(MARGIN))


def _rates(step: StepSummary) -> str:
    parts: list[str] = []
    if step.offered_per_s is not None and step.reached_per_s is not None:
        parts.append(f"offered {step.offered_per_s:,.4g}/s, sent {step.reached_per_s:,.4g}/s")
    if step.completed_per_s is not None:
        parts.append(f"completed {step.completed_per_s:,.4g}/s")
    if step.output_tokens_per_s is not None:
        parts.append(f"{step.output_tokens_per_s:,.4g} output tokens/s")
    return ", ".join(parts)


def _generator(step: StepSummary) -> str:
    parts: list[str] = []
    for name, label in (("dispatch_lag", "dispatch lag"), ("loop_lag", "event loop lag")):
        lag: Mapping[str, float] | None = step.generator.get(name)
        if lag is not None:
            parts.append(
                f"{label} p50 {milliseconds(lag['p50'] * NS_PER_S)},"
                f" p99 {milliseconds(lag['p99'] * NS_PER_S)}"
            )
    busy = step.generator.get("busy")
    if busy is not None:
        parts.append(f"{percent(busy)} of a CPU used")
    return f"generator: {'; '.join(parts)}" if parts else ""


def _failures(step: StepSummary) -> str:
    failed = {outcome: number for outcome, number in step.outcomes.items() if outcome.failed}
    given_up = sum(step.outcomes.get(outcome, 0) for outcome in CUT)
    parts = [f"{number:,} {outcome.value}" for outcome, number in failed.items()]
    errors = [text for each in step.errors.items() if (text := _error(*each, failed))]
    missing = [
        f"{number:,} {word}"
        for number, word in (
            (given_up - step.cut, "given up"),
            (step.cut, "cut off at the end"),
            (step.unsent, "not sent"),
        )
        if number > 0
    ]
    if not parts and not missing:
        return "no request failed"
    reasons = f" ({', '.join(errors)})" if errors else ""
    text = f"failed: {listed(parts)}{reasons}" if parts else ""
    return "; ".join(each for each in (text, ", ".join(missing)) if each)


def _error(name: str, number: int, failed: Mapping[Outcome, int]) -> str:
    """Return an error and how often it occurred; empty if the outcome has the same name."""
    if name in failed:
        return ""
    if name != semconv.ERROR_TYPE_OTHER:
        return f"{name} {number:,}"
    # The conventions have this one value for every error without a type.
    if failed.get(Outcome.TRUNCATED, 0) >= number:
        return f"{count(number, 'response')} ended without an end mark"
    return f"{count(number, 'error')} without a type"


def _cache(step: StepSummary) -> str:
    cached = step.cached
    if cached is None or not (cached.first or cached.last):
        return ""
    first, last = percent(cached.first), percent(cached.last)
    return f"cached input: {first} in the first third of the requests, {last} in the last"


def _target(result: TargetResult, step: StepSummary) -> Text:
    label, verdict = result.target.label, result.verdict
    if not step.is_valid:
        return Text.assemble(("no verdict", "bold red"), f": {label}; the measurement is invalid")
    if verdict is None:
        return Text.assemble(("no verdict", "bold yellow"), f": {label}; no request has a value")
    since = "the scheduled start" if result.origin is Origin.SCHEDULE else "the start"
    return Text.assemble(
        (str(verdict), f"bold {_STYLES[verdict.verdict]}"),
        f": {label}; {verdict.misses:,} of {count(verdict.requests, 'request')} took longer or"
        f" failed, counted from {since}",
    )
