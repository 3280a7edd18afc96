"""
JSON document of ``latspan report --json`` and ``latspan demo --json``, ``latspan.demo/1``.

Times of segments are integer nanoseconds, metrics are seconds. A number is ``null`` if it is
undefined, has too few values, or depends on values of requests that were given up or failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from latspan._base.nanoseconds import to_seconds
from latspan._model.metrics import DURATION, LATENCY_METRICS, Metric
from latspan._model.recording import Distribution, RequestRecord, Snapshot
from latspan._model.units import TimeUnit, in_metric_unit
from latspan._study.render.group import Group, calls_in, requests_in, served_in
from latspan._study.render.slow import sentence, slowest_tenth

DEMO_SCHEMA: Final = "latspan.demo/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

_PERCENTILES: Final = (50, 95, 99)


def demo_document(
    snapshot: Snapshot, by: str | None = None, parts: Mapping[str, Snapshot] = MappingProxyType({})
) -> dict[str, object]:
    """
    Return the calls of a snapshot and their summary as plain data, ready for ``json.dumps``.

    Without calls, they are the requests that the application opened, or else those that it served.

    Args:
        snapshot: Recorded data, with its records kept.
        by: Attribute by whose values it was divided, if it was.
        parts: Part of the snapshot for each value.
    """
    document: dict[str, object] = {"schema": DEMO_SCHEMA, **_one(snapshot)}
    if by is not None:
        document["groups"] = [
            {"attribute": by, "value": value, **_one(part)} for value, part in parts.items()
        ]
    return document


def _one(snapshot: Snapshot) -> dict[str, object]:
    calls = calls_in(snapshot)
    others = (group_in(snapshot) for group_in in (requests_in, served_in))
    group = calls if calls.total else next((each for each in others if each.total), calls)
    return {
        "kind": group.kind.value,
        "requests": [_request(record) for record in group.records],
        "summary": {
            "segments": _segments(group),
            "metrics": {
                metric.name: _metric(group.snapshot.metric(metric.name, kind=group.kind), metric)
                for metric in LATENCY_METRICS.values()
            },
            "sentence": sentence(
                group.records,
                group.noun,
                own_code_unattributed=group.has_own_unattributed_time,
            ),
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
    if metric.name == DURATION:
        return to_seconds(call.duration_ns)
    value = call.metrics.get(metric.name)
    if value is None:
        return None
    return in_metric_unit(value.value, metric.unit)


def _segments(group: Group) -> list[dict[str, object]]:
    slowest = slowest_tenth(group.records)
    rows: list[dict[str, object]] = []
    for name in group.snapshot.segments():
        values = group.snapshot.segment(name, kind=group.kind)
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
    return {
        "n": values.count(),
        "failed": values.failed(),
        "cut": values.cut(),
        **dict(percentiles),
    }


def _known(values: Distribution, unit: TimeUnit) -> Sequence[float | None]:
    return [values.percentile(each, unit=unit, default=None) for each in _PERCENTILES]
