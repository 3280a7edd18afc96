"""
A ladder: the requests of a load test at several rates, as arrays.

The rungs of a ladder are the steps of one measurement, or of several of the same system. Only open
loops have an offered load: a closed loop sends fewer requests to a slower server.

A request that was given up took at least as long as it was waited for. If that leaves the goal
percentile of a step open, the step is left out, because a rung is a number. Otherwise the
percentile is the same whatever these requests would have taken, and they rank last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan._base.nanoseconds import NS_PER_S
from latspan._model.goals import LOAD_CONDITIONS
from latspan._model.recording.folder import Recording, refuse_copies
from latspan._model.segments import Kind
from latspan._model.text import count, listed
from latspan._study.measurement import (
    Measurement,
    Origin,
    StepRequests,
    StepSummary,
    answered_models,
    measured_kind,
    summarize,
)
from latspan._study.table import MEASURED, Table, metric_of, read_table
from latspan.errors import RecordingError
from latspan.histogram import values_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

_MIN_RUNGS: Final = 2
_OTHER_LOAD: Final = 0.05
"""Relative difference from which two rungs have two loads; random arrivals vary by some percent."""
_SAME: Final = (
    "measured",
    "model",
    "parameters",
    *LOAD_CONDITIONS,
    "processors",
    "platform",
)
"""Conditions that all recordings of a ladder have in common."""

_HOW: Final = "latspan measure NAME --rate 1 --ladder --percentile 99"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """
    Requests at one offered load, those of warm-up and drain included.

    Args:
        rate_per_s: Offered load, requests per second: the mean rate of the measured arrivals, which
            may differ from the rate that was asked for.
        due: Instants at which requests were due, ascending; shape ``(n,)``, seconds.
        end: Instants at which they ended; seconds on the same clock.
        value: Goal metric from ``due`` in seconds; infinite if the request failed or was given up,
            NaN if the metric is not defined for it.
        measured: Whether the request counts: no warm-up, no drain.
        models: Models that answered.
        given_up: Whether each request was given up; ``None`` if none was.
    """

    rate_per_s: float
    due: Values
    end: Values
    value: Values
    measured: NDArray[np.bool_]
    models: tuple[str, ...] = ()
    given_up: NDArray[np.bool_] | None = None

    @property
    def values(self) -> Values:
        """Goal metric of the measured requests in the order in which they were due, seconds."""
        chosen = self.value[self.measured]
        return chosen[~np.isnan(chosen)]

    @property
    def failed(self) -> int:
        """Number of measured requests that failed."""
        failed = np.isinf(self.value) & self.measured
        if self.given_up is not None:
            failed &= ~self.given_up
        return int(failed.sum())

    @property
    def cut(self) -> int:
        """Number of measured requests that were given up."""
        return 0 if self.given_up is None else int((self.given_up & self.measured).sum())

    @property
    def gaps(self) -> Values:
        """Gaps between arrivals, divided by their mean; shape ``(n - 1,)``."""
        gaps = np.diff(self.due)
        mean = float(gaps.mean()) if len(gaps) else 0.0
        return gaps / mean if mean else gaps


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """
    Rungs of one system, by ascending load.

    Args:
        name: Inference path, or what was measured.
        kind: Kind of the measured unit.
        metric: Goal metric.
        percentile: Goal percentile.
        rungs: Its rungs.
        left_out: Steps that are not rungs, with the reason, one sentence each.
        notes: What else a reader must know, one sentence each.
    """

    name: str
    kind: Kind
    metric: str
    percentile: float
    rungs: tuple[Rung, ...]
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_ladder(recordings: Sequence[Recording], metric: str, percentile: float) -> Ladder:
    """
    Return the ladder of one or several measurements.

    Args:
        recordings: Recordings of ``latspan measure``, at least one.
        metric: A metric of :data:`~latspan._model.metrics.FROM_START`.
        percentile: In (0, 100).

    Raises:
        RecordingError: They are not of one system, or have fewer than two rungs.
        ConfigError: One of them is given several times, or is a copy of another one.
    """
    refuse_copies((str(each.folder), each.manifest.get("id")) for each in recordings)
    rungs: list[Rung] = []
    left_out: list[str] = []
    notes: list[str] = []
    first: Measurement | None = None
    has_values = False
    for recording in recordings:
        table = read_table(recording, (), kind=measured_kind(recording))
        measurement = _measured(recording, table)
        first = first or measurement
        _refuse_another(recordings[0], recording, first, measurement)
        notes += measurement.notes
        own = metric_of(metric, measurement.kind)
        for number, step in enumerate(measurement.steps):
            rate_per_s = _offered_per_s(step)
            requests = StepRequests.of(table, number)
            has_values |= bool(np.isfinite(requests.measured.bounds(own).low).any())
            reason = _no_rung(step, rate_per_s, percentile)
            reason = reason or _unknown(requests, own, percentile)
            if reason:
                left_out.append(f"{_named(step)} is left out: {reason}.")
            elif rate_per_s is not None:
                rungs.append(_rung(rate_per_s, requests.under_load, own))
    assert first is not None  # noqa: S101 - there is at least one recording
    rungs.sort(key=lambda rung: rung.rate_per_s)
    if not has_values:
        raise RecordingError(
            f"no request of the ladder has a {metric}",
            hint="use --goal 'p99 duration', or see why all requests failed: latspan report",
        )
    _refuse_too_few(rungs, left_out, recordings[0])
    _refuse_mixed(rungs)
    return Ladder(
        name=first.name,
        kind=first.kind,
        metric=metric,
        percentile=percentile,
        rungs=tuple(rungs),
        left_out=tuple(left_out),
        notes=tuple(dict.fromkeys(notes)),
    )


def distinct_loads(rates_per_s: Iterable[float]) -> list[float]:
    """Return loads in ascending order without those that are nearly the load before them."""
    distinct: list[float] = []
    for rate in sorted(rates_per_s):
        if not distinct or rate > (1 + _OTHER_LOAD) * distinct[-1]:
            distinct.append(rate)
    return distinct


def _measured(recording: Recording, table: Table) -> Measurement:
    measurement = summarize(recording, table)
    if not measurement.steps:
        raise RecordingError(
            f"{recording.folder} is not a load test, so its arrivals have no offered load",
            hint=f"measure a ladder: {_HOW}",
        )
    return measurement


def _refuse_another(
    one: Recording, other: Recording, first: Measurement, second: Measurement
) -> None:
    """Raise an error if a recording is of another system, or under other conditions."""
    differing = [name for name in _SAME if one.conditions.get(name) != other.conditions.get(name)]
    if _prompts(one) != _prompts(other):
        differing.append("prompts")
    if first.kind is not second.kind:
        differing.append("kind")
    if differing:
        raise RecordingError(
            f"{other.folder} is not of the same ladder as {one.folder}: {listed(differing)}"
            f" {'differs' if len(differing) == 1 else 'differ'}",
            hint="measure all rungs with the same options, except --rate",
        )


def _prompts(recording: Recording) -> object:
    prompts: Mapping[str, Any] = recording.conditions.get("prompts", {})
    return prompts.get("fingerprint")


def _no_rung(step: StepSummary, rate_per_s: float | None, percentile: float) -> str:
    """Return why a step is not a rung; empty if it is one."""
    if not step.is_open:
        return "it is a closed loop, which has no offered load"
    if rate_per_s is None:
        return "its offered load is unknown"
    if not step.is_valid:
        why = next(each.text for each in step.caveats if each.invalidates)
        return f"it is INVALID, because {why}"
    needed = values_needed(percentile)
    if step.measured < needed:
        return f"it has {count(step.measured, 'request')}, and a p{percentile:g} needs {needed:,}"
    return ""


def _unknown(requests: StepRequests, metric: str, percentile: float) -> str:
    """Return why the percentile of a step is not known; empty if it is, or falls on failures."""
    latency = requests.latency(metric, Origin.SCHEDULE)
    bounds = latency.all(percentile)
    if bounds is None:
        return f"{latency.count:,} of its requests have a {metric}, which are too few"
    if bounds.low == bounds.high:
        return ""
    return (
        f"its p{percentile:g} is at least {bounds.low / NS_PER_S:,.4g} s and not known, because"
        f" {latency.cut:,} of {latency.count:,} requests were given up"
    )


def _named(step: StepSummary) -> str:
    concurrency = step.load.get("concurrency")
    if concurrency is not None:
        return f"The step with {concurrency:,} in flight"
    rate = step.load.get("rate_per_s")
    return f"The step with {rate:,.4g} requests/s" if isinstance(rate, int | float) else "A step"


def _offered_per_s(step: StepSummary) -> float | None:
    """Return the mean rate of the arrivals; that of the plan if the account has none."""
    stated = step.load.get("rate_per_s")
    rate = stated if step.offered_per_s is None else step.offered_per_s
    return float(rate) if isinstance(rate, int | float) else None


def _rung(rate_per_s: float, table: Table, metric: str) -> Rung:
    known = table.bounds(metric)
    due = table.start_ns - table.lag_ns
    order = np.argsort(due, kind="stable")
    first = int(due[order[0]])
    end = table.start_ns + table.duration_ns
    return Rung(
        rate_per_s=rate_per_s,
        due=(due[order] - first) / NS_PER_S,
        end=(end[order] - first) / NS_PER_S,
        value=known.high[order] / NS_PER_S,
        measured=table.phase[order] == MEASURED,
        models=tuple(answered_models(table)),
        given_up=known.cut[order],
    )


def _refuse_too_few(rungs: Sequence[Rung], left_out: Iterable[str], recording: Recording) -> None:
    if len(distinct_loads(rung.rate_per_s for rung in rungs)) >= _MIN_RUNGS:
        return
    reasons = "".join(f"\n{each}" for each in left_out)
    raise RecordingError(
        f"{recording.folder} has {count(len(rungs), 'rung')}, and a ladder has at least two"
        f"{reasons}",
        hint=f"measure several rates: {_HOW}",
    )


def _refuse_mixed(rungs: Sequence[Rung]) -> None:
    """Raise an error if rungs were answered by different models."""
    names = list(_distinct(rung.models for rung in rungs if rung.models))
    if len(names) > 1:
        raise RecordingError(
            "different models answered the rungs of the ladder: "
            + "; ".join(", ".join(each) for each in names),
            hint="name one model with latspan measure --model, and measure again",
        )


def _distinct(names: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    yield from dict.fromkeys(names)
