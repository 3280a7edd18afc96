"""
JSON document of ``latspan measure --json``, schema ``latspan.measurement/1``.

Times are seconds. A percentile is ``null`` if there are too few values, or if it is unbounded
because it falls on a failed request; ``unbounded`` lists the latter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from latspan._base.nanoseconds import to_seconds
from latspan._study.measurement import Latency, Measurement, StepSummary, TargetResult

MEASUREMENT_SCHEMA: Final = "latspan.measurement/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

_PERCENTILES: Final = (50, 90, 95, 99, 99.9)


def measurement_document(measurement: Measurement, *, recording: str) -> dict[str, object]:
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
        "kind": measurement.kind.value,
        "valid": measurement.is_valid,
        "interrupted": measurement.interrupted,
        "conditions": {**measurement.conditions, **measurement.observed},
        "steps": [_step(step) for step in measurement.steps],
        "notes": list(measurement.notes),
    }


def _step(step: StepSummary) -> dict[str, object]:
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


def _latency(latency: Latency) -> dict[str, object]:
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
        "from": latency.origin.value,
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


def _percentiles(percentile: Callable[[float], float | None]) -> dict[str, object]:
    values = {_name(each): percentile(each) for each in _PERCENTILES}
    return {
        name: None if value is None or math.isinf(value) else to_seconds(value)
        for name, value in values.items()
    }


def _name(percentile: float) -> str:
    return f"p{percentile:g}"


def _target(result: TargetResult, step: StepSummary) -> dict[str, object]:
    target, verdict = result.target, result.verdict
    known = verdict if step.is_valid else None
    return {
        "metric": target.metric,
        "percentile": target.percentile,
        "limit_s": to_seconds(target.limit_ns),
        "from": result.origin.value,
        "verdict": None if known is None else known.verdict.value,
        "requests": None if verdict is None else verdict.requests,
        "misses": None if verdict is None else verdict.misses,
        "needed": None if known is None else known.needed,
    }
