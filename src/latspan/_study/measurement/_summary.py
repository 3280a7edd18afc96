"""Summary of a load test: what was sent, how it ended, how long it took, and what that proves."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import stdev
from typing import Any, Final

from latspan import semconv
from latspan._metrics import FIRST_TOKENS
from latspan._recording import RequestRecord
from latspan._recording.folder import Recording, cut_indexes
from latspan._segments import Kind, Outcome
from latspan._study.measurement._latency import Latency, Origin
from latspan._study.measurement._validity import CachedInput, Caveat, caveats
from latspan._study.stats import TargetVerdict, target_verdict
from latspan._targets import Target
from latspan._units import NS_PER_S
from latspan.errors import RecordingError

__all__ = ["Measurement", "StepSummary", "TargetResult", "summarize"]

_MEASURED: Final = "measured"
_SHOWN: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.CALL: ("duration", "time_to_first_token", "time_per_output_token"),
    Kind.REQUEST: ("duration", "time_to_first_visible_token"),
}
_RATES: Final = frozenset({"time_per_output_token"})
"""Metrics that do not begin with the request, so the wait to be sent is no part of them."""


_THIRDS: Final = 3


@dataclass(frozen=True, slots=True)
class TargetResult:
    """
    What a step proves about a target.

    Args:
        target: The target.
        verdict: What is proven; ``None`` if no request has a value of the metric.
        origin: Instant from which the metric was measured.
    """

    target: Target
    verdict: TargetVerdict | None
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """
    One step of a measurement: one level of load.

    Args:
        load: What defines the load, by name.
        intended: Number of requests that were to be measured.
        unsent: Number of them that were not sent, because the measurement was cut short.
        cut: Number of them that the end of the measurement cancelled.
        outcomes: Number of the others by outcome.
        errors: Number of failed ones by ``error.type``.
        latencies: Values by metric and origin.
        offered_per_s: Rate of the schedule; ``None`` in a closed loop.
        reached_per_s: Rate at which requests were sent; ``None`` in a closed loop.
        completed_per_s: Rate at which requests completed.
        output_tokens_per_s: Output tokens of completed requests per second; ``None`` if unknown.
        cached: Cached input in the first and the last third; ``None`` if unknown.
        generator: Lag and load of the generator, in seconds and fractions.
        caveats: What a reader must know.
        targets: Results of the targets.
    """

    load: Mapping[str, Any]
    intended: int
    unsent: int
    cut: int
    outcomes: Mapping[Outcome, int]
    errors: Mapping[str, int]
    latencies: Mapping[tuple[str, Origin], Latency]
    offered_per_s: float | None
    reached_per_s: float | None
    completed_per_s: float | None
    output_tokens_per_s: float | None
    cached: CachedInput | None
    generator: Mapping[str, Any]
    caveats: tuple[Caveat, ...]
    targets: tuple[TargetResult, ...]

    @property
    def is_open(self) -> bool:
        """Whether requests were sent on a schedule, whatever happened to earlier ones."""
        return "concurrency" not in self.load

    @property
    def measured(self) -> int:
        """Number of measured requests that ended by themselves."""
        return sum(self.outcomes.values())

    @property
    def completed(self) -> int:
        """Number of measured requests that completed."""
        return self.outcomes.get(Outcome.COMPLETED, 0)

    @property
    def is_valid(self) -> bool:
        """Whether the numbers are the server's."""
        return not any(each.invalidates for each in self.caveats)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """
    Summary of a load test.

    Args:
        name: Inference path or target.
        kind: Kind of the measured unit.
        steps: Its steps, in the order in which they were measured.
        interrupted: Whether it was interrupted.
        ended: Whether the process that measured has ended it in order.
        percentile: Highest percentile that it was to show.
        conditions: Conditions of the recording.
        observed: Conditions that only the responses show: names of the models that answered,
            cached fraction of the input, and fraction of the calls that reused a connection.
        notes: What is missing in the recording.
    """

    name: str
    kind: Kind
    steps: tuple[StepSummary, ...]
    interrupted: bool
    ended: bool
    percentile: float
    conditions: Mapping[str, Any]
    observed: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def is_valid(self) -> bool:
        """Whether every step is valid, and there is one."""
        return self.ended and bool(self.steps) and all(step.is_valid for step in self.steps)


@dataclass(slots=True)
class _Collected:
    """Records of one step, as far as the summary needs them."""

    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    errors: Counter[str] = field(default_factory=Counter[str])
    values: defaultdict[str, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Value and dispatch lag of completed requests by metric."""
    spans: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Due time, start and end of the measured requests."""
    in_flight: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Start and end of the requests of every phase."""
    cached: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Start, input tokens and cached ones."""
    output_tokens: int = 0
    models: set[str] = field(default_factory=set[str])
    reused: list[bool] = field(default_factory=list[bool])
    """Whether each call reused a connection."""


def summarize(recording: Recording) -> Measurement:
    """
    Return the summary of a load test.

    Args:
        recording: Recording of ``latspan measure``.

    Raises:
        RecordingError: The manifest is damaged, or a file of the recording cannot be read.
    """
    about: Mapping[str, Any] = recording.manifest.get("measurement", {})
    kind = Kind(about.get("kind", Kind.CALL))
    accounts: Sequence[Mapping[str, Any]] = about.get("steps", ())
    # Other load tools account for less.
    is_ours = recording.manifest.get("source") == "measure"
    if is_ours and any(_NEEDED - account.keys() for account in accounts):
        raise RecordingError(
            f"{recording.folder} has a step without {', '.join(sorted(_NEEDED))}",
            hint="measure again: the manifest of this recording is damaged",
        )
    cut = cut_indexes(recording.manifest)
    steps: defaultdict[int, _Collected] = defaultdict(_Collected)
    for record in recording.records(kind):
        details = record.details
        index, phase = details.get(semconv.LATSPAN_LOAD_INDEX), details.get(_PHASE)
        if not isinstance(index, int) or phase not in _UNDER_LOAD:
            continue
        number = details.get(semconv.LATSPAN_LOAD_STEP, 0)
        collected = steps[number if isinstance(number, int) else 0]
        end_ns = record.start_epoch_ns + record.duration_ns
        collected.in_flight.append((record.start_epoch_ns, end_ns))
        if phase == _MEASURED and index not in cut:
            _collect(collected, record)
    targets = tuple(
        Target(metric=each["metric"], percentile=each["percentile"], limit_ns=each["limit_ns"])
        for each in about.get("targets", ())
    )
    return Measurement(
        name=about.get("name", ""),
        kind=kind,
        steps=tuple(
            _step(
                {**account, "max_in_flight": about.get("max_in_flight")},
                steps[number],
                kind,
                targets,
            )
            for number, account in enumerate(accounts)
        ),
        interrupted=bool(about.get("interrupted")),
        ended=bool(about.get("ended")),
        percentile=about.get("percentile", 95),
        conditions=recording.conditions,
        observed=_observed(list(steps.values())),
        notes=recording.notes,
    )


_NEEDED: Final = frozenset({"load", "intended", "unsent", "generator"})
"""Fields of every step."""

_PHASE: Final = semconv.LATSPAN_LOAD_PHASE
_UNDER_LOAD: Final = frozenset({"warmup", _MEASURED, "drain"})


def _collect(collected: _Collected, record: RequestRecord) -> None:
    lag = record.details.get(semconv.LATSPAN_LOAD_DISPATCH_LAG, 0)
    lag_ns = round(lag * NS_PER_S) if isinstance(lag, int | float) else 0
    start_ns = record.start_epoch_ns
    collected.outcomes[record.outcome] += 1
    collected.spans.append((start_ns - lag_ns, start_ns, start_ns + record.duration_ns))
    if record.outcome is not Outcome.COMPLETED:
        error = record.details.get(semconv.ERROR_TYPE)
        collected.errors[error if isinstance(error, str) else record.outcome.value] += 1
        return
    for name, value in record.metrics.items():
        collected.values[name].append((value.value, lag_ns))
    tokens = record.tokens
    if tokens.input and tokens.cached is not None:
        collected.cached.append((start_ns, tokens.input, tokens.cached))
    collected.output_tokens += tokens.output or 0
    model = record.details.get(semconv.GEN_AI_RESPONSE_MODEL)
    if isinstance(model, str):
        collected.models.add(model)
    reused = record.details.get(semconv.LATSPAN_CONNECTION_REUSED)
    if isinstance(reused, bool):
        collected.reused.append(reused)


def _observed(steps: Sequence[_Collected]) -> dict[str, Any]:
    models = sorted({model for step in steps for model in step.models})
    cached = [count for step in steps for count in step.cached]
    reused = [each for step in steps for each in step.reused]
    observed: dict[str, Any] = {}
    if models:
        observed["models_returned"] = models
    if cached:
        observed["cached_input"] = round(_ratio(cached)[0], 4)
    if reused:
        observed["connections_reused"] = round(sum(reused) / len(reused), 4)
    return observed


def _step(
    account: Mapping[str, Any], collected: _Collected, kind: Kind, targets: Sequence[Target]
) -> StepSummary:
    completed = collected.outcomes[Outcome.COMPLETED]
    failed = sum(collected.outcomes.values()) - completed
    is_open = "concurrency" not in account.get("load", {})
    latencies: dict[tuple[str, Origin], Latency] = {}
    without_token = 0
    for metric in dict.fromkeys((*_SHOWN[kind], *(target.metric for target in targets))):
        # A response without a token never gives its user a first one.
        known = len(collected.values[metric])
        empty = completed - known if known and metric in FIRST_TOKENS else 0
        without_token = max(without_token, empty)
        for origin in _origins(metric, is_open=is_open):
            values = (
                value + (lag if origin is Origin.SCHEDULE else 0)
                for value, lag in collected.values[metric]
            )
            latency = Latency.of(metric, origin, values, failed + empty)
            # If requests completed without a value, the metric is not defined for them.
            if latency.values_ns or not completed:
                latencies[metric, origin] = latency
    cached = _cached(collected.cached)
    elapsed_s = _elapsed_s(collected)
    return StepSummary(
        load=account.get("load", {}),
        intended=account.get("intended", 0),
        unsent=account.get("unsent", 0),
        cut=len(account.get("cut", ())),
        outcomes=dict(collected.outcomes),
        errors=dict(collected.errors.most_common()),
        latencies=latencies,
        offered_per_s=account.get("offered_per_s"),
        reached_per_s=account.get("reached_per_s"),
        completed_per_s=completed / elapsed_s if elapsed_s else None,
        output_tokens_per_s=(
            collected.output_tokens / elapsed_s if elapsed_s and collected.output_tokens else None
        ),
        cached=cached,
        generator=account.get("generator", {}),
        caveats=tuple(
            caveats(
                account,
                limits_ns=[target.limit_ns for target in targets],
                cached=cached,
                # A closed loop keeps its number in flight by itself.
                in_flight=_in_flight(collected) if is_open else None,
                without_token=without_token,
            )
        ),
        targets=tuple(_results(targets, latencies)),
    )


def _origins(metric: str, *, is_open: bool) -> Iterator[Origin]:
    if is_open and metric not in _RATES:
        yield Origin.SCHEDULE
    yield Origin.START


def _results(
    targets: Sequence[Target], latencies: Mapping[tuple[str, Origin], Latency]
) -> Iterator[TargetResult]:
    for target in targets:
        origin = Origin.SCHEDULE if (target.metric, Origin.SCHEDULE) in latencies else Origin.START
        latency = latencies.get((target.metric, origin))
        verdict = None
        if latency is not None and latency.count:
            misses = latency.misses(target.limit_ns)
            verdict = target_verdict(latency.count, misses, target.percentile)
        yield TargetResult(target, verdict, origin)


def _elapsed_s(collected: _Collected) -> float:
    """Return the time from the first measured start to the last measured end, in seconds."""
    if not collected.spans:
        return 0.0
    first = min(start for _, start, _ in collected.spans)
    return (max(end for *_, end in collected.spans) - first) / NS_PER_S


def _cached(counts: list[tuple[int, int, int]]) -> CachedInput | None:
    """Compare the input that was cached in the first and the last third of the requests."""
    third = len(counts) // _THIRDS
    if not third:
        return None
    counts.sort()
    (early, early_error), (late, late_error) = map(_ratio, (counts[:third], counts[-third:]))
    return CachedInput(early, late, math.hypot(early_error, late_error))


def _ratio(counts: list[tuple[int, int, int]]) -> tuple[float, float]:
    """
    Return the cached fraction of the input of some requests, and its standard error.

    If the same beginning of prompts of different lengths is cached, the fraction differs from
    request to request, which is no change of the cache.

    Source: ratio estimator; Cochran, Sampling Techniques, section 2.11.
    """
    total = sum(count for _, count, _ in counts)
    ratio = sum(cached for *_, cached in counts) / total
    if len(counts) < 2:
        return ratio, math.inf
    residuals = [cached - ratio * count for _, count, cached in counts]
    return ratio, math.sqrt(len(counts)) * stdev(residuals) / total


def _in_flight(collected: _Collected) -> tuple[float, float] | None:
    """
    Return the mean number in flight while measured requests began, and the one of Little's law.

    Little's law: number in flight = rate of arrivals x mean time in the system.
    """
    spans = collected.spans
    if len(spans) < _THIRDS:
        return None
    begin, end = min(start for _, start, _ in spans), max(start for _, start, _ in spans)
    if end <= begin:
        return None
    inside = sum(max(0, min(e, end) - max(s, begin)) for s, e in collected.in_flight)
    mean_ns = sum(e - s for _, s, e in spans) / len(spans)
    return inside / (end - begin), (len(spans) - 1) / (end - begin) * mean_ns
