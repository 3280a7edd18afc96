"""
Records of a load test, step by step, as far as its summary needs them.

Every value is a number in an array. A request takes about 150 bytes: the record itself, with the
gaps between its chunks, would take thousands.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import stdev
from typing import Any, Final

from latspan import semconv
from latspan._recording import RequestRecord
from latspan._recording.folder import Recording, cut_indexes
from latspan._segments import Kind, Outcome
from latspan._study.measurement._validity import CachedInput
from latspan._units import NS_PER_S

__all__ = ["CollectedStep", "StepCollector", "measured_records", "measured_step"]

_MEASURED: Final = "measured"
"""Phase of the requests that count."""

_UNDER_LOAD: Final = frozenset({"warmup", _MEASURED, "drain"})
_THIRDS: Final = 3
_LARGEST: Final = 2**63 - 1
"""Largest number of an array: a damaged line may have a lag and a value of 2**62 each."""


def _integers() -> array[int]:
    return array("q")


@dataclass(slots=True)
class _Values:
    """
    Values of one metric.

    Args:
        values_ns: Values of completed requests.
        lags_ns: Dispatch lag of the same requests.
    """

    values_ns: array[int] = field(default_factory=_integers)
    lags_ns: array[int] = field(default_factory=_integers)


@dataclass(slots=True)
class CollectedStep:
    """
    Records of one step.

    Args:
        outcomes: Number of the measured requests by outcome.
        errors: Number of the failed ones by ``error.type``.
        metrics: Values of completed requests by metric.
        starts_ns: Starts of the measured requests.
        lags_ns: Their dispatch lags.
        durations_ns: Their durations.
        others_ns: Start and duration of the requests of every other phase, alternately.
        cached: Start, input tokens and cached ones, in three columns.
        output_tokens: Sum over completed requests.
        models: Models that answered.
        calls: Number of calls that reused a connection, and of all that report it.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    errors: Counter[str] = field(default_factory=Counter[str])
    metrics: defaultdict[str, _Values] = field(default_factory=lambda: defaultdict(_Values))
    starts_ns: array[int] = field(default_factory=_integers)
    lags_ns: array[int] = field(default_factory=_integers)
    durations_ns: array[int] = field(default_factory=_integers)
    others_ns: array[int] = field(default_factory=_integers)
    cached: tuple[array[int], array[int], array[int]] = field(
        default_factory=lambda: (_integers(), _integers(), _integers())
    )
    output_tokens: int = 0
    models: set[str] = field(default_factory=set[str])
    calls: tuple[int, int] = (0, 0)

    def count(self, metric: str) -> int:
        """Return the number of values of a metric."""
        return len(self.metrics[metric].values_ns) if metric in self.metrics else 0

    def values_ns(self, metric: str, *, from_schedule: bool) -> Iterator[int]:
        """Yield the values of a metric, from the start or from the due time of each request."""
        if metric not in self.metrics:
            return
        held = self.metrics[metric]
        if not from_schedule:
            yield from held.values_ns
            return
        for value_ns, lag_ns in zip(held.values_ns, held.lags_ns, strict=True):
            yield min(value_ns + lag_ns, _LARGEST)

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Yield the due time, the start and the end of each measured request."""
        for start, lag, duration in zip(
            self.starts_ns, self.lags_ns, self.durations_ns, strict=True
        ):
            yield start - lag, start, start + duration

    def elapsed_s(self) -> float:
        """Return the time from the first measured start to the last measured end, in seconds."""
        if not self.starts_ns:
            return 0.0
        first = min(start for _, start, _ in self.spans())
        return (max(end for *_, end in self.spans()) - first) / NS_PER_S

    def in_flight(self) -> tuple[float, float] | None:
        """
        Return the mean number in flight while measured requests began, and that of Little's law.

        Little's law: number in flight = rate of arrivals x mean time in the system.
        """
        size = len(self.starts_ns)
        if size < _THIRDS:
            return None
        begin, end = min(start for _, start, _ in self.spans()), max(self.starts_ns)
        if end <= begin:
            return None
        inside = sum(
            max(0, min(start + duration, end) - max(start, begin))
            for start, duration in self._under_load()
        )
        return inside / (end - begin), (size - 1) / (end - begin) * (sum(self.durations_ns) / size)

    def _under_load(self) -> Iterator[tuple[int, int]]:
        """Yield the start and the duration of the requests of every phase."""
        yield from zip(self.starts_ns, self.durations_ns, strict=True)
        yield from zip(self.others_ns[::2], self.others_ns[1::2], strict=True)

    def cached_input(self) -> CachedInput | None:
        """Compare the input that was cached in the first and the last third of the requests."""
        starts, tokens, cached = self.cached
        third = len(starts) // _THIRDS
        if not third:
            return None
        order = sorted(range(len(starts)), key=starts.__getitem__)
        parts = (order[:third], order[-third:])
        (early, early_error), (late, late_error) = (
            _ratio([tokens[row] for row in rows], [cached[row] for row in rows]) for rows in parts
        )
        return CachedInput(early, late, math.hypot(early_error, late_error))


class StepCollector:
    """
    Collects the records of a load test while they are read, perhaps for another purpose too.

    Args:
        recording: Recording of ``latspan measure``.
    """

    def __init__(self, recording: Recording) -> None:
        about: Mapping[str, Any] = recording.manifest.get("measurement", {})
        self.kind: Final = Kind(about.get("kind", Kind.CALL))
        """Kind of the measured unit; records of other kinds are ignored."""
        self.steps: Final[defaultdict[int, CollectedStep]] = defaultdict(CollectedStep)
        """Records by the number of their step."""
        self._cut = cut_indexes(recording.manifest)

    def add(self, record: RequestRecord) -> None:
        """Add the next record of the recording."""
        if record.kind is not self.kind:
            return
        details = record.details
        index = details.get(semconv.LATSPAN_LOAD_INDEX)
        phase = details.get(semconv.LATSPAN_LOAD_PHASE)
        if not isinstance(index, int) or phase not in _UNDER_LOAD:
            return
        number = details.get(semconv.LATSPAN_LOAD_STEP, 0)
        step = self.steps[number if isinstance(number, int) else 0]
        if phase == _MEASURED and index not in self._cut:
            _collect(step, record)
        else:
            step.others_ns.extend((record.start_epoch_ns, record.duration_ns))

    def observed(self) -> dict[str, Any]:
        """Return the conditions that only the responses show."""
        steps = self.steps.values()
        models = sorted({model for step in steps for model in step.models})
        tokens, cached = (sum(sum(step.cached[column]) for step in steps) for column in (1, 2))
        reused, calls = (sum(step.calls[part] for step in steps) for part in (0, 1))
        observed: dict[str, Any] = {}
        if models:
            observed["models_returned"] = models
        if tokens:
            observed["cached_input"] = round(cached / tokens, 4)
        if calls:
            observed["connections_reused"] = round(reused / calls, 4)
        return observed


def _collect(step: CollectedStep, record: RequestRecord) -> None:
    lag = record.details.get(semconv.LATSPAN_LOAD_DISPATCH_LAG, 0)
    lag_ns = round(lag * NS_PER_S) if isinstance(lag, int | float) else 0
    start_ns = record.start_epoch_ns
    step.outcomes[record.outcome] += 1
    step.starts_ns.append(start_ns)
    step.lags_ns.append(lag_ns)
    step.durations_ns.append(record.duration_ns)
    if record.outcome is not Outcome.COMPLETED:
        error = record.details.get(semconv.ERROR_TYPE)
        step.errors[error if isinstance(error, str) else record.outcome.value] += 1
        return
    for name, value in record.metrics.items():
        held = step.metrics[name]
        held.values_ns.append(value.value)
        held.lags_ns.append(lag_ns)
    tokens = record.tokens
    if tokens.input and tokens.cached is not None:
        for column, number in zip(
            step.cached, (start_ns, tokens.input, tokens.cached), strict=True
        ):
            column.append(number)
    step.output_tokens += tokens.output or 0
    model = record.details.get(semconv.GEN_AI_RESPONSE_MODEL)
    if isinstance(model, str):
        step.models.add(model)
    reused = record.details.get(semconv.LATSPAN_CONNECTION_REUSED)
    if isinstance(reused, bool):
        step.calls = step.calls[0] + reused, step.calls[1] + 1


def _ratio(tokens: list[int], cached: list[int]) -> tuple[float, float]:
    """
    Return the cached fraction of the input of some requests, and its standard error.

    If the same beginning of prompts of different lengths is cached, the fraction differs from
    request to request, which is not a change of the cache.

    Source: ratio estimator; Cochran, Sampling Techniques, section 2.11.
    """
    total = sum(tokens)
    ratio = sum(cached) / total
    if len(tokens) < 2:
        return ratio, math.inf
    residuals = [part - ratio * whole for whole, part in zip(tokens, cached, strict=True)]
    return ratio, math.sqrt(len(tokens)) * stdev(residuals) / total


def measured_step(recording: Recording, step: int) -> Callable[[RequestRecord], bool]:
    """
    Return a function that returns whether a record counts in a step, or is inside one that does.

    Warm-up and drain do not count, and neither do requests that the end of the measurement
    cancelled. If the recording is not of a load test, every record counts.

    Args:
        recording: The recording.
        step: Number of the step, from 0.
    """
    about: Mapping[str, Any] = recording.manifest.get("measurement", {})
    cut = cut_indexes(recording.manifest)

    def counts(record: RequestRecord) -> bool:
        details = record.details
        return not about or (
            details.get(semconv.LATSPAN_LOAD_PHASE) == _MEASURED
            and details.get(semconv.LATSPAN_LOAD_STEP, 0) == step
            and details.get(semconv.LATSPAN_LOAD_INDEX) not in cut
        )

    return counts


def measured_records(recording: Recording, step: int) -> Iterator[RequestRecord]:
    """
    Yield the measured requests of a step with their calls; all records if it is not a load test.

    Args:
        recording: The recording.
        step: Number of the step, from 0.

    Raises:
        OSError: A file of the recording cannot be read.
    """
    return filter(measured_step(recording, step), recording.records())
