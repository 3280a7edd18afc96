"""Recordings of load tests, constructed request by request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from latspan import Kind, Recording, open_recording, semconv
from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.recording.folder import RecordFile, begin_recording
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment, TokenCounts

_T0_NS = 1_700_000_000_000_000_000


def call(
    index: int,
    *,
    at_ms: float = 0,
    lag_ms: float = 0,
    duration_ms: float = 100,
    ttft_ms: float | None = 50,
    outcome: Outcome = Outcome.COMPLETED,
    phase: str = "measured",
    number: int | None = None,
    error: str | None = None,
    prompt: int = 100,
    cached: int | None = None,
) -> RequestRecord:
    """Return a measured call that was due at ``at_ms`` and sent ``lag_ms`` later."""
    duration_ns = round(duration_ms * NS_PER_MS)
    details: dict[str, object] = {
        semconv.LATSPAN_LOAD_INDEX: index,
        semconv.LATSPAN_LOAD_PHASE: phase,
        semconv.LATSPAN_LOAD_DISPATCH_LAG: lag_ms / 1e3,
        semconv.GEN_AI_RESPONSE_MODEL: "m-1",
    }
    if number is not None:
        details[semconv.LATSPAN_LOAD_STEP] = number
    if error is not None:
        details[semconv.ERROR_TYPE] = error
    metrics = {"duration": MetricValue(duration_ns)}
    if ttft_ms is not None and outcome is Outcome.COMPLETED:
        metrics["time_to_first_token"] = MetricValue(round(ttft_ms * NS_PER_MS))
    return RequestRecord(
        name="chat m",
        kind=Kind.CALL,
        outcome=outcome,
        start_epoch_ns=_T0_NS + round((at_ms + lag_ms) * NS_PER_MS),
        duration_ns=duration_ns,
        segments=(Segment("server_wait", 0, duration_ns),),
        metrics=metrics,
        tokens=TokenCounts(input=prompt, cached=cached, output=10),
        details=details,
    )


def step(*, intended: int, **changes: Any) -> dict[str, Any]:
    """Return the account of an open loop of ten requests per second."""
    return {
        "load": {"pattern": "poisson", "rate_per_s": 10},
        "intended": intended,
        "unsent": 0,
        "cut": [],
        "sent": {"measured": intended},
        "generator": {
            "busy": 0.12,
            "loop_lag": {"p50": 0.0006, "p99": 0.002, "max": 0.004},
            "dispatch_lag": {"p50": 0.0005, "p99": 0.0021, "max": 0.003},
        },
        "offered_per_s": 10.0,
        "reached_per_s": 9.95,
        **changes,
    }


def load_test(
    folder: Path,
    records: Iterable[RequestRecord],
    steps: Sequence[Mapping[str, Any]],
    **about: Any,
) -> Recording:
    """Write and open the recording of a load test."""
    manifest = begin_recording(folder, source="measure", conditions={"measured": "scripted"})
    file = RecordFile(folder)
    file.begin()
    for record in records:
        file.append(record)
    file.end()
    manifest.update(
        measurement={"name": "chat", "kind": "call", "ended": True, "steps": list(steps), **about}
    )
    return open_recording(folder)
