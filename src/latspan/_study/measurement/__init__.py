"""Results of a load test, computed from its recording: percentiles, rates, validity, verdicts."""

from __future__ import annotations

from latspan._study.measurement._collected import StepRequests, answered_models
from latspan._study.measurement._latency import Latency, Origin
from latspan._study.measurement._summary import (
    Measurement,
    StepSummary,
    TargetResult,
    measured_kind,
    refuse_step,
    summarize,
)
from latspan._study.measurement._validity import CachedInput, Caveat

__all__ = [
    "CachedInput",
    "Caveat",
    "Latency",
    "Measurement",
    "Origin",
    "StepRequests",
    "StepSummary",
    "TargetResult",
    "answered_models",
    "measured_kind",
    "refuse_step",
    "summarize",
]
