"""
JSON document of ``latspan measure --json``, schema ``latspan.measurement/1``.

Times are seconds. A percentile is ``null`` if there are too few values, or if it is unbounded
because it falls on a failed request; ``unbounded`` lists the latter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Final, Literal, TypedDict

from latspan._base.nanoseconds import to_seconds
from latspan._model.segments import Kind
from latspan._study.fields import Count, Limits, Percentile, Seconds
from latspan._study.measurement import Latency, Measurement, Origin, StepSummary, TargetResult
from latspan._study.stats import Verdict

MEASUREMENT_SCHEMA: Final = "latspan.measurement/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

_PERCENTILES: Final = (50, 90, 95, 99, 99.9)


_Ends = TypedDict(
    "_Ends",
    {
        "p50": Seconds | None,
        "p90": Seconds | None,
        "p95": Seconds | None,
        "p99": Seconds | None,
        "p99.9": Seconds | None,
    },
)


class CompletedPercentiles(_Ends):
    """Percentiles; null if there are too few values, or if it is unbounded."""


class Percentiles(_Ends):
    """Percentiles; null if there are too few values, or if it is unbounded or not known."""

    unbounded: Annotated[list[str], "Percentiles that fall on a failed request"]
    at_least: Annotated[
        dict[str, float],
        "Lower bounds of the percentiles that are not known because requests were given up",
    ]


MeasuredLatency = TypedDict(
    "MeasuredLatency",
    {
        "metric": str,
        "from": Origin,
        "n": Annotated[Count, "Requests with a value, failed ones included"],
        "failed": Count,
        "cut": Annotated[Count, "Requests that were given up before the value was known"],
        "all": Percentiles,
        "completed": CompletedPercentiles,
    },
)


MeasuredTarget = TypedDict(
    "MeasuredTarget",
    {
        "metric": str,
        "percentile": Percentile,
        "limit_s": Annotated[float, Limits(above=0)],
        "from": Origin,
        "verdict": Annotated[
            Verdict | None, "null if the step is invalid or no request has a value"
        ],
        "requests": Count | None,
        "misses": Count | None,
        "needed": Annotated[
            Count | None,
            "Further requests, all within the limit, that would prove that the target is met",
        ],
    },
)


class CachedFraction(TypedDict):
    """Cached fraction of the input in two thirds of the measurement."""

    first_third: float
    last_third: float


class StatedCaveat(TypedDict):
    """What limits the interpretation of a step."""

    name: str
    text: str
    invalidates: bool


class MeasuredStep(TypedDict):
    """One level of load."""

    load: Annotated[
        dict[str, object],
        "What defines the load, for example rate_per_s and pattern, or concurrency",
    ]
    loop: Literal["open", "closed"]
    valid: bool
    intended: Annotated[Count, "Requests that were to be measured"]
    measured: Annotated[Count, "Requests that ended by themselves"]
    unsent: Count
    cut: Annotated[Count, "Requests that the end of the measurement cancelled"]
    outcomes: Annotated[dict[str, Count], "Number of requests by outcome"]
    errors: Annotated[dict[str, Count], "Number of failed requests by error.type"]
    offered_per_s: Annotated[float | None, "Rate of the schedule; null in a closed loop"]
    reached_per_s: float | None
    completed_per_s: float | None
    output_tokens_per_s: float | None
    cached: Annotated[CachedFraction | None, "null if unknown"]
    generator: Annotated[
        dict[str, object],
        "Lags of the load generator in seconds, and the fraction of a CPU that it used",
    ]
    latencies: list[MeasuredLatency]
    caveats: list[StatedCaveat]
    targets: list[MeasuredTarget]


class MeasurementDocument(TypedDict):
    """Result of a load test: latspan measure --json."""

    schema: Literal["latspan.measurement/1"]
    name: Annotated[str, "Inference path, address or function"]
    recording: Annotated[str, "Folder of the recording"]
    kind: Kind
    valid: Annotated[bool, "Whether the numbers are those of the server, in every step"]
    interrupted: bool
    conditions: Annotated[
        dict[str, object], "Conditions of the recording, and what the responses showed"
    ]
    steps: list[MeasuredStep]
    notes: list[str]


def measurement_document(measurement: Measurement, *, recording: str) -> MeasurementDocument:
    """
    Return the summary of a load test as plain data, ready for ``json.dumps``.

    Args:
        measurement: The summary.
        recording: Folder of its recording.
    """
    return {
        "schema": MEASUREMENT_SCHEMA,
        "name": measurement.name,
        "recording": recording,
        "kind": measurement.kind,
        "valid": measurement.is_valid,
        "interrupted": measurement.interrupted,
        "conditions": {**measurement.conditions, **measurement.observed},
        "steps": [_step(step) for step in measurement.steps],
        "notes": list(measurement.notes),
    }


def _step(step: StepSummary) -> MeasuredStep:
    return {
        "load": dict(step.load),
        "loop": "open" if step.is_open else "closed",
        "valid": step.is_valid,
        "intended": step.intended,
        "measured": step.measured,
        "unsent": step.unsent,
        "cut": step.cut,
        "outcomes": {outcome.value: number for outcome, number in step.outcomes.items()},
        "errors": dict(step.errors),
        "offered_per_s": step.offered_per_s,
        "reached_per_s": step.reached_per_s,
        "completed_per_s": step.completed_per_s,
        "output_tokens_per_s": step.output_tokens_per_s,
        "cached": None
        if step.cached is None
        else {"first_third": step.cached.first, "last_third": step.cached.last},
        "generator": dict(step.generator),
        "latencies": [_latency(latency) for latency in step.latencies.values()],
        "caveats": [
            {"name": each.name, "text": each.text, "invalidates": each.invalidates}
            for each in step.caveats
        ],
        "targets": [_target(result, step) for result in step.targets],
    }


def _latency(latency: Latency) -> MeasuredLatency:
    bounds = {each: latency.all(each) for each in _PERCENTILES}
    unbounded = [
        _name(each) for each, value in bounds.items() if value is not None and math.isinf(value.low)
    ]
    at_least = {
        _name(each): to_seconds(value.low)
        for each, value in bounds.items()
        if value is not None and value.low < value.high
    }
    return {
        "metric": latency.metric,
        "from": latency.origin,
        "n": latency.count,
        "failed": latency.failed,
        "cut": latency.cut,
        "all": {
            **_percentiles(lambda each: None if (b := bounds[each]) is None else b.high),
            "unbounded": unbounded,
            "at_least": at_least,
        },
        "completed": _percentiles(latency.completed),
    }


def _percentiles(percentile: Callable[[float], float | None]) -> CompletedPercentiles:
    def known(wanted: float) -> float | None:
        value = percentile(wanted)
        return None if value is None or math.isinf(value) else to_seconds(value)

    return {
        "p50": known(50),
        "p90": known(90),
        "p95": known(95),
        "p99": known(99),
        "p99.9": known(99.9),
    }


def _name(percentile: float) -> str:
    return f"p{percentile:g}"


def _target(result: TargetResult, step: StepSummary) -> MeasuredTarget:
    target, verdict = result.target, result.verdict
    known = verdict if step.is_valid else None
    return {
        "metric": target.metric,
        "percentile": target.percentile,
        "limit_s": to_seconds(target.limit_ns),
        "from": result.origin,
        "verdict": None if known is None else known.verdict,
        "requests": None if verdict is None else verdict.requests,
        "misses": None if verdict is None else verdict.misses,
        "needed": None if known is None else known.needed,
    }
