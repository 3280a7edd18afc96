"""Results of a load test, computed from its recording: percentiles, rates, validity, verdicts."""

from __future__ import annotations

from latspan._study.measurement._latency import Latency, Origin
from latspan._study.measurement._records import measured_records
from latspan._study.measurement._summary import (
    Measurement,
    StepSummary,
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
    "TargetResult",
    "measured_records",
    "summarize",
]
