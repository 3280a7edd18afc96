"""
Capacity: percentiles against the offered load, the knee, headroom, and projections to other loads.

See ``docs/adr/0041-project-latency-by-simulating-measured-work.md`` for the method.
"""

from __future__ import annotations

from latspan._study.capacity._capacity import CapacityStudy, Knee, study_capacity
from latspan._study.capacity._curve import Capacity, Point, percentile_of
from latspan._study.capacity._ladder import Ladder, Rung, read_ladder
from latspan._study.capacity._projection import HoldOut, Label, Projection, Projector, Refusal
from latspan._study.capacity._simulation import Service, simulate

__all__ = [
    "Capacity",
    "CapacityStudy",
    "HoldOut",
    "Knee",
    "Label",
    "Ladder",
    "Point",
    "Projection",
    "Projector",
    "Refusal",
    "Rung",
    "Service",
    "percentile_of",
    "read_ladder",
    "simulate",
    "study_capacity",
]
