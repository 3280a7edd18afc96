"""
JSON document of ``latspan report --json`` and ``latspan demo --json``, ``latspan.demo/1``.

Times of segments are integer nanoseconds, metrics are seconds. A number is ``null`` if it is
undefined, has too few values, or depends on values of requests that were given up or failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, NotRequired, TypedDict

from latspan._base.nanoseconds import to_seconds
from latspan._model.metrics import DURATION, LATENCY_METRICS, Metric
from latspan._model.recording import Distribution, RequestRecord, Snapshot
from latspan._model.segments import Kind, Outcome, Source
from latspan._model.tokens import TokenSource
from latspan._model.units import TimeUnit, in_metric_unit
from latspan._study.fields import Count
from latspan._study.render.group import Group, calls_in, requests_in, served_in
from latspan._study.render.slow import sentence, slowest_tenth
from latspan._study.render.steps import stage_kinds, steps_by_name

DEMO_SCHEMA: Final = "latspan.demo/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


class ReportedSegment(TypedDict):
    """Time of a request in one segment."""

    name: str
    duration_ns: Count
    source: Source


class ReportedStep(TypedDict):
    """A call, a stage or an HTTP exchange inside a request; times are since its start."""

    name: str
    kind: Kind
    start_ns: Count
    end_ns: Annotated[Count | None, "null if it was open when the request ended"]
    parent: Annotated[Count, "Number of the step that it began in, from 1; 0 if in none"]
    merged: Annotated[Count, "Number of steps of this name that it stands for"]


class ReportedTokens(TypedDict):
    """Token counts of a request; null if they are not known."""

    input: Count | None
    cached: Count | None
    output: Count | None
    reasoning: Count | None
    source: TokenSource


class ReportedRequest(TypedDict):
    """One request or call."""

    duration_ns: Count
    outcome: Outcome
    segments: list[ReportedSegment]
    steps: Annotated[list[ReportedStep], "Steps of a request, in the order of their starts"]
    metrics: Annotated[dict[str, float | None], "Seconds, a count or a ratio, by metric"]
    tokens: ReportedTokens


class SegmentSummary(TypedDict):
    """A segment of all requests."""

    name: str
    n: Annotated[Count, "Number of values"]
    p50_ns: Count | None
    p95_ns: Count | None
    p99_ns: Count | None
    slow_share: Annotated[float | None, "Share of the time of the slowest tenth of the requests"]


class StepSummary(TypedDict):
    """Steps of all requests with one name."""

    name: str
    kind: Annotated[str, "call, http, stage, or the kind of the stage, such as tool"]
    n: Annotated[Count, "Number of such steps"]
    fewest: Annotated[Count, "Smallest number in a request that has one"]
    most: Annotated[Count, "Largest number in a request"]
    p50_ns: Annotated[Count | None, "Duration of whole steps"]
    p95_ns: Count | None
    p99_ns: Count | None
    slow_share: Annotated[
        float | None, "Share of the time of the slowest tenth, without steps inside it"
    ]


class MetricSummary(TypedDict):
    """A metric of all requests, in seconds, as a count or as a ratio."""

    n: Annotated[Count, "Number of values"]
    failed: Annotated[Count, "Requests that failed before the value was known"]
    cut: Annotated[Count, "Requests that were given up before the value was known"]
    p50: float | None
    p95: float | None
    p99: float | None


class ReportSummary(TypedDict):
    """All requests together."""

    segments: list[SegmentSummary]
    steps: list[StepSummary]
    metrics: dict[str, MetricSummary]
    sentence: str


class _ReportedUnits(TypedDict):
    kind: Annotated[Kind, "What is counted"]
    requests: list[ReportedRequest]
    summary: ReportSummary


class ReportedGroup(_ReportedUnits):
    """Requests with one value of an attribute."""

    attribute: str
    value: str


class DemoDocument(_ReportedUnits):
    """
    Where the time of requests went: latspan report --json and latspan demo --json.

    Times of segments are integer nanoseconds, metrics are seconds. A number is null if it is
    undefined, has too few values, or depends on values of requests that were given up or failed.
    """

    schema: Literal["latspan.demo/1"]
    groups: NotRequired[Annotated[list[ReportedGroup], "With --by, one per value of the attribute"]]


def demo_document(
    snapshot: Snapshot, by: str | None = None, parts: Mapping[str, Snapshot] = MappingProxyType({})
) -> DemoDocument:
    """
    Return what users waited for, and its summary, as plain data that is ready for ``json.dumps``.

    They are the requests that the application served, or else those that it opened, or else calls.

    Args:
        snapshot: Recorded data, with its records kept.
        by: Attribute by whose values it was divided, if it was.
        parts: Part of the snapshot for each value.
    """
    document: DemoDocument = {"schema": DEMO_SCHEMA, **_one(snapshot)}
    if by is not None:
        document["groups"] = [
            {"attribute": by, "value": value, **_one(part)} for value, part in parts.items()
        ]
    return document


def _one(snapshot: Snapshot) -> _ReportedUnits:
    groups = [group_in(snapshot) for group_in in (served_in, requests_in, calls_in)]
    group = next((each for each in groups if each.total), groups[-1])
    return {
        "kind": group.kind,
        "requests": [_request(record) for record in group.records],
        "summary": {
            "segments": _segments(group),
            "steps": _steps(group, stage_kinds(snapshot)),
            "metrics": {
                metric.name: _metric(group.snapshot.metric(metric.name, kind=group.kind), metric)
                for metric in LATENCY_METRICS.values()
            },
            "sentence": sentence(group.records, group.noun),
        },
    }


def _request(call: RequestRecord) -> ReportedRequest:
    return {
        "duration_ns": call.duration_ns,
        "outcome": call.outcome,
        "segments": [
            {"name": total.name, "duration_ns": total.duration_ns, "source": total.source}
            for total in call.segment_totals
        ],
        "steps": [
            {
                "name": step.name,
                "kind": step.kind,
                "start_ns": step.start_ns,
                "end_ns": step.end_ns,
                "parent": step.parent,
                "merged": step.merged,
            }
            for step in call.steps
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
            "source": call.tokens.source,
        },
    }


def _single_value(call: RequestRecord, metric: Metric) -> float | None:
    if metric.name == DURATION:
        return to_seconds(call.duration_ns)
    value = call.metrics.get(metric.name)
    if value is None:
        return None
    return in_metric_unit(value.value, metric.unit)


def _segments(group: Group) -> list[SegmentSummary]:
    slowest = slowest_tenth(group.records)
    rows: list[SegmentSummary] = []
    for name in group.snapshot.segments():
        values = group.snapshot.segment(name, kind=group.kind)
        if values.count():
            rows.append(
                {
                    "name": name,
                    "n": values.count(),
                    "p50_ns": _nanoseconds(values, 50),
                    "p95_ns": _nanoseconds(values, 95),
                    "p99_ns": _nanoseconds(values, 99),
                    "slow_share": slowest.share(name),
                }
            )
    return rows


def _steps(group: Group, kinds: Mapping[str, str]) -> list[StepSummary]:
    return [
        {
            "name": steps.name,
            "kind": steps.kind,
            "n": steps.total,
            "fewest": min(steps.numbers),
            "most": max(steps.numbers),
            "p50_ns": steps.percentile_ns(50),
            "p95_ns": steps.percentile_ns(95),
            "p99_ns": steps.percentile_ns(99),
            "slow_share": steps.share,
        }
        for steps in steps_by_name(group, kinds)
    ]


def _nanoseconds(values: Distribution, percentile: float) -> int | None:
    value = values.percentile(percentile, unit="ns", default=None)
    return None if value is None else round(value)


def _metric(values: Distribution, metric: Metric) -> MetricSummary:
    unit: TimeUnit = "s" if metric.unit == "s" else "ns"
    return {
        "n": values.count(),
        "failed": values.failed(),
        "cut": values.cut(),
        "p50": values.percentile(50, unit=unit, default=None),
        "p95": values.percentile(95, unit=unit, default=None),
        "p99": values.percentile(99, unit=unit, default=None),
    }
