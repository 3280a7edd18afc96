"""
The capacity of a system as JSON, schema ``latspan.capacity/1``.

Times are seconds, loads are requests per second. A time is ``null`` if it falls on failed requests,
or if there is no projection.
"""

from __future__ import annotations

import math
from typing import Final

from latspan._study.capacity import CapacityStudy, Projection

CAPACITY_SCHEMA: Final = "latspan.capacity/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


def capacity_document(study: CapacityStudy) -> dict[str, object]:
    """
    Return the capacity of a system as plain data, ready for ``json.dumps``.

    Args:
        study: What a ladder shows.
    """
    capacity, knee, held_out = study.capacity, study.knee, study.held_out
    return {
        "schema": CAPACITY_SCHEMA,
        "name": study.name,
        "kind": study.kind.value,
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


def _projection(each: Projection) -> dict[str, object]:
    return {
        "rate_per_s": each.rate_per_s,
        "label": each.label.value,
        "low_s": _known(each.low_s),
        "high_s": _known(each.high_s),
        "utilization": each.utilization,
        "reason": None if each.refusal is None else each.refusal.reason,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
