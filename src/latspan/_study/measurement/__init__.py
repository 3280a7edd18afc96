"""Results of a load test, computed from its recording: percentiles, rates, validity, verdicts."""

from __future__ import annotations

from latspan._study.measurement._collected import measured_records, measured_step
from latspan._study.measurement._latency import Latency, Origin
from latspan._study.measurement._summary import (
    Measurement,
    StepSummary,
    Summing,
    TargetResult,
    summarize,
)
from latspan._study.measurement._validity import CachedInput, Caveat

__all__ = [
    "CachedInput",
    "Caveat",
    "Latency",
    "Measurement",
    "Origin",
    "StepSummary",
    "Summing",
    "TargetResult",
    "measured_records",
    "measured_step",
    "summarize",
]
