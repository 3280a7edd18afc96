"""
A ladder: the requests of a load test at several rates, as arrays.

The rungs of a ladder are the steps of one measurement, or of several of the same system. Only open
loops have an offered load: a closed loop sends fewer requests to a slower server.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan import semconv
from latspan._drawing import count, listed
from latspan._recording import RequestRecord
from latspan._recording.folder import Recording, cut_indexes, refuse_copies
from latspan._segments import Kind, Outcome
from latspan._study.measurement import Measurement, StepSummary, summarize
from latspan._units import NS_PER_S, to_seconds
from latspan.errors import RecordingError
from latspan.histogram import values_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

__all__ = ["DURATION", "Ladder", "Rung", "distinct_loads", "read_ladder"]

DURATION: Final = "duration"

_FEWEST_RUNGS: Final = 2
_OTHER_LOAD: Final = 0.05
"""Relative difference from which two rungs have two loads; random arrivals vary by some percent."""
_SAME: Final = (
    "measured",
    "model",
    "parameters",
    "cache",
    "connections",
    "max_in_flight",
    "timeout_s",
    "processors",
    "platform",
)
"""Conditions that all recordings of a ladder have in common."""

_MEASURED: Final = "measured"
_UNDER_LOAD: Final = frozenset({"warmup", _MEASURED, "drain"})
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
        value: Goal metric from ``due`` in seconds; infinite if the request failed, NaN if the
            metric is not defined for it.
        measured: Whether the request counts: no warm-up, no drain.
        models: Models that answered.
    """

    rate_per_s: float
    due: Values
    end: Values
    value: Values
    measured: NDArray[np.bool_]
    models: tuple[str, ...] = ()

    @property
    def values(self) -> Values:
        """Goal metric of the measured requests in the order in which they were due, seconds."""
        chosen = self.value[self.measured]
        return chosen[~np.isnan(chosen)]

    @property
    def failed(self) -> int:
        """Number of measured requests that failed."""
        return int(np.isinf(self.values).sum())

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


@dataclass(slots=True)
class _Collected:
    """Requests of one step."""

    due: list[int] = field(default_factory=list[int])
    end: list[int] = field(default_factory=list[int])
    value: list[float] = field(default_factory=list[float])
    measured: list[bool] = field(default_factory=list[bool])
    models: set[str] = field(default_factory=set[str])


def read_ladder(recordings: Sequence[Recording], metric: str, percentile: float) -> Ladder:
    """
    Return the ladder of one or several measurements.

    Args:
        recordings: Recordings of ``latspan measure``, at least one.
        metric: ``duration``, ``time_to_first_token`` or ``time_to_first_visible_token``.
        percentile: In (0, 100).

    Raises:
        RecordingError: They are not of one system, or have fewer than two rungs.
        ConfigError: One of them is given several times, or is a copy of another one.
    """
    refuse_copies((str(each.folder), each.manifest.get("id")) for each in recordings)
    first, *others = [_measured(each) for each in recordings]
    for recording, other in zip(recordings[1:], others, strict=True):
        _refuse_another(recordings[0], recording, first, other)
    rungs: list[Rung] = []
    left_out: list[str] = []
    notes: list[str] = []
    for recording, measurement in zip(recordings, (first, *others), strict=True):
        collected = _collect(recording, measurement.kind, metric)
        notes += measurement.notes
        for number, step in enumerate(measurement.steps):
            rate_per_s = _offered_per_s(step)
            reason = _no_rung(step, rate_per_s, percentile)
            if reason:
                left_out.append(f"{_named(step)} is left out: {reason}.")
            elif number in collected and rate_per_s is not None:
                rungs.append(_rung(rate_per_s, collected[number]))
    rungs.sort(key=lambda rung: rung.rate_per_s)
    _refuse_too_few(rungs, left_out, recordings[0])
    _refuse_mixed(rungs)
    if all(np.isinf(rung.values).all() for rung in rungs):
        raise RecordingError(
            f"no request of the ladder has a {metric}",
            hint="use --goal 'p99 duration', or see why all requests failed: latspan report",
        )
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


def _measured(recording: Recording) -> Measurement:
    measurement = summarize(recording)
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


def _collect(recording: Recording, kind: Kind, metric: str) -> dict[int, _Collected]:
    """Return the requests of each step."""
    cut = cut_indexes(recording.manifest)
    steps: dict[int, _Collected] = {}
    for record in recording.records(kind):
        details = record.details
        phase, index = details.get(semconv.LATSPAN_LOAD_PHASE), details.get(_INDEX)
        if phase not in _UNDER_LOAD:
            continue
        number = details.get(semconv.LATSPAN_LOAD_STEP, 0)
        collected = steps.setdefault(number if isinstance(number, int) else 0, _Collected())
        lag = details.get(semconv.LATSPAN_LOAD_DISPATCH_LAG, 0)
        lag_ns = round(lag * NS_PER_S) if isinstance(lag, int | float) else 0
        collected.due.append(record.start_epoch_ns - lag_ns)
        collected.end.append(record.start_epoch_ns + record.duration_ns)
        collected.value.append(_value(record, metric, lag_ns))
        collected.measured.append(phase == _MEASURED and index not in cut)
        model = details.get(semconv.GEN_AI_RESPONSE_MODEL)
        if isinstance(model, str):
            collected.models.add(model)
    return steps


_INDEX: Final = semconv.LATSPAN_LOAD_INDEX


def _value(record: RequestRecord, metric: str, lag_ns: int) -> float:
    """Return a metric from schedule in seconds."""
    if record.outcome is not Outcome.COMPLETED:
        return math.inf
    if metric == DURATION:
        return to_seconds(record.duration_ns + lag_ns)
    known = record.metrics.get(metric)
    # A completed response without a token never gives its user a first one.
    return math.inf if known is None else to_seconds(known.value + lag_ns)


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


def _rung(rate_per_s: float, collected: _Collected) -> Rung:
    order = np.argsort(np.array(collected.due, dtype=np.int64), kind="stable")
    due = np.array(collected.due, dtype=np.int64)[order]
    end = np.array(collected.end, dtype=np.int64)[order]
    return Rung(
        rate_per_s=rate_per_s,
        due=(due - due[0]) / NS_PER_S,
        end=(end - due[0]) / NS_PER_S,
        value=np.array(collected.value)[order],
        measured=np.array(collected.measured, dtype=np.bool_)[order],
        models=tuple(sorted(collected.models)),
    )


def _refuse_too_few(rungs: Sequence[Rung], left_out: Iterable[str], recording: Recording) -> None:
    if len(distinct_loads(rung.rate_per_s for rung in rungs)) >= _FEWEST_RUNGS:
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
