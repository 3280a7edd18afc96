"""
JSON document of ``latspan demo --json``, schema ``latspan.demo/1``.

Times of segments are integer nanoseconds, metrics are seconds. A number is ``null`` if it is
undefined or has too few values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from latspan._metrics import LATENCY_METRICS, Metric
from latspan._recording import Distribution, RequestRecord, Snapshot
from latspan._segments import Kind
from latspan._units import TimeUnit, in_metric_unit, to_seconds
from latspan.reports._group import calls_in
from latspan.reports._slow import Slowest, sentence, slowest_tenth

__all__ = ["DEMO_SCHEMA", "demo_document"]

DEMO_SCHEMA: Final = "latspan.demo/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

_PERCENTILES: Final = (50, 95, 99)


def demo_document(snapshot: Snapshot) -> dict[str, object]:
    """
    Return the calls of a snapshot and their summary as plain data, ready for ``json.dumps``.

    Args:
        snapshot: Recorded data, with its records kept.
    """
    calls = calls_in(snapshot).records
    return {
        "schema": DEMO_SCHEMA,
        "requests": [_request(call) for call in calls],
        "summary": {
            "segments": _segments(snapshot, slowest_tenth(calls)),
            "metrics": {
                metric.name: _metric(snapshot.metric(metric.name, kind=Kind.CALL), metric)
                for metric in LATENCY_METRICS.values()
            },
            "sentence": sentence(calls, "call"),
        },
    }


def _request(call: RequestRecord) -> dict[str, object]:
    return {
        "duration_ns": call.duration_ns,
        "outcome": call.outcome.value,
        "segments": [
            {"name": total.name, "duration_ns": total.duration_ns, "source": total.source.value}
            for total in call.segment_totals
        ],
        "metrics": {
            metric.name: _single_value(call, metric)
            for metric in LATENCY_METRICS.values()
            if not metric.distribution
        },
        "tokens": {
            "input": call.tokens.input,
            "cached": call.tokens.cached,
            "output": call.tokens.output,
            "reasoning": call.tokens.reasoning,
            "source": call.tokens.source.value,
        },
    }


def _single_value(call: RequestRecord, metric: Metric) -> float | None:
    if metric.name == "duration":
        return to_seconds(call.duration_ns)
    value = call.metrics.get(metric.name)
    if value is None:
        return None
    return in_metric_unit(value.value, metric.unit)


def _segments(snapshot: Snapshot, slowest: Slowest) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in snapshot.segments():
        values = snapshot.segment(name, kind=Kind.CALL)
        if values.count():
            row: dict[str, object] = {"name": name, "n": values.count()}
            for key, value in zip(
                ("p50_ns", "p95_ns", "p99_ns"), _known(values, "ns"), strict=True
            ):
                row[key] = None if value is None else round(value)
            rows.append({**row, "slow_share": slowest.share(name)})
    return rows


def _metric(values: Distribution, metric: Metric) -> dict[str, object]:
    unit: TimeUnit = "s" if metric.unit == "s" else "ns"
    percentiles = zip(("p50", "p95", "p99"), _known(values, unit), strict=True)
    return {"n": values.count(), **dict(percentiles)}


def _known(values: Distribution, unit: TimeUnit) -> Sequence[float | None]:
    return [values.percentile(each, unit=unit, default=None) for each in _PERCENTILES]
