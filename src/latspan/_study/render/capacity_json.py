"""
The capacity of a system as JSON, schema ``latspan.capacity/1``.

Times are seconds, loads are requests per second. A time is ``null`` if it falls on failed requests,
or if there is no projection.
"""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal, TypedDict

from latspan._model.segments import Kind
from latspan._study.capacity import CapacityStudy, Label, Projection
from latspan._study.fields import Count, Percentile, Seconds

CAPACITY_SCHEMA: Final = "latspan.capacity/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


class CapacityGoal(TypedDict):
    """The percentile, and its limit."""

    metric: str
    percentile: Percentile
    limit_s: Seconds | None


class MeasuredRung(TypedDict):
    """Percentile at one load that was measured."""

    rate_per_s: Annotated[float, "Offered load: mean rate of the measured arrivals"]
    value_s: Seconds | None
    low_s: Seconds | None
    high_s: Seconds | None
    requests: Count
    failed: Count
    saturated: Annotated[bool, "Whether it offered more than the system can do"]


class SaturatedThroughput(TypedDict):
    """Throughput of the saturated system."""

    per_s: float
    low_per_s: float
    high_per_s: float


LoadKnee = TypedDict(
    "LoadKnee",
    {
        "per_s": float | None,
        "low_per_s": float,
        "high_per_s": Annotated[float | None, "null if it is unbounded"],
        "from": Literal["model", "rungs"],
    },
)


class LoadHeadroom(TypedDict):
    """Loads that the system can have."""

    comfortable_per_s: Annotated[float | None, "Load at 80 % of the capacity"]
    within_limit_per_s: Annotated[
        float | None,
        "Highest load up to which no range exceeds the limit, below the refused loads",
    ]
    current_per_s: float | None
    times: Annotated[float | None, "How many times the load of today that is"]


class ProjectedPercentile(TypedDict):
    """Range of the percentile at a load."""

    rate_per_s: float
    label: Label
    low_s: Seconds | None
    high_s: Seconds | None
    utilization: float | None
    reason: Annotated[str | None, "Why it is refused"]


class HeldOutRung(TypedDict):
    """Projection to a rung that was measured and not used."""

    rate_per_s: float
    measured_s: Seconds | None
    projected_s: Seconds
    low_s: Seconds
    high_s: Seconds
    ratio: float | None


class ProjectionRefusal(TypedDict):
    """Why nothing can be projected."""

    reason: str
    hint: str | None


class CapacityDocument(TypedDict):
    """
    Latency against load: latspan capacity --json.

    Times are seconds and loads are requests per second. A time is null if it falls on failed
    requests.
    """

    schema: Literal["latspan.capacity/1"]
    name: str
    kind: Kind
    goal: CapacityGoal
    rungs: list[MeasuredRung]
    capacity: Annotated[
        SaturatedThroughput | None,
        "Throughput of the saturated system; null if no rung saturated it",
    ]
    knee: Annotated[
        LoadKnee | None, "Load above which the percentile grows steeply; null if it is unknown"
    ]
    headroom: LoadHeadroom
    projections: list[ProjectedPercentile]
    held_out: Annotated[
        HeldOutRung | None,
        "Projection to a rung that was measured and not used; null without one",
    ]
    refusal: Annotated[ProjectionRefusal | None, "Why nothing can be projected; null otherwise"]
    notes: list[str]


def capacity_document(study: CapacityStudy) -> CapacityDocument:
    """
    Return the capacity of a system as plain data, ready for ``json.dumps``.

    Args:
        study: What a ladder shows.
    """
    capacity, knee, held_out = study.capacity, study.knee, study.held_out
    return {
        "schema": CAPACITY_SCHEMA,
        "name": study.name,
        "kind": study.kind,
        "goal": {
            "metric": study.metric,
            "percentile": study.percentile,
            "limit_s": study.limit_s,
        },
        "rungs": [
            {
                "rate_per_s": point.rate_per_s,
                "value_s": _known(point.value_s),
                "low_s": _known(point.low_s),
                "high_s": _known(point.high_s),
                "requests": point.requests,
                "failed": point.failed,
                "saturated": point.saturated,
            }
            for point in study.points
        ],
        "capacity": None
        if capacity is None
        else {
            "per_s": capacity.per_s,
            "low_per_s": capacity.low_per_s,
            "high_per_s": capacity.high_per_s,
        },
        "knee": None
        if knee is None
        else {
            "per_s": knee.per_s,
            "low_per_s": knee.low_per_s,
            "high_per_s": _known(knee.high_per_s),
            "from": "model" if knee.simulated else "rungs",
        },
        "headroom": {
            "comfortable_per_s": study.comfortable_per_s,
            "within_limit_per_s": study.within_limit_per_s,
            "current_per_s": study.current_per_s,
            "times": study.headroom,
        },
        "projections": [_projection(each) for each in study.projections],
        "held_out": None
        if held_out is None
        else {
            "rate_per_s": held_out.rate_per_s,
            "measured_s": _known(held_out.measured_s),
            "projected_s": held_out.projected_s,
            "low_s": held_out.low_s,
            "high_s": held_out.high_s,
            "ratio": _known(held_out.ratio),
        },
        "refusal": None
        if study.refusal is None
        else {"reason": study.refusal.reason, "hint": study.refusal.hint},
        "notes": list(study.notes),
    }


def _projection(each: Projection) -> ProjectedPercentile:
    return {
        "rate_per_s": each.rate_per_s,
        "label": each.label,
        "low_s": _known(each.low_s),
        "high_s": _known(each.high_s),
        "utilization": each.utilization,
        "reason": None if each.refusal is None else each.refusal.reason,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
