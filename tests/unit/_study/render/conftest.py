"""Fixtures with constructed calls for the reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate

import pytest

from latspan import Kind, Snapshot, Source, TokenSource
from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.metrics import buffer_needed, fluidity, stalls, tokens_before
from latspan._model.recording import Recorder
from latspan.integrations import Outcome
from latspan.testing import ManualClock, MetricValue, RequestRecord, Segment, TokenCounts

Parts = Iterable[tuple[str, float, Source]]


def make_call(
    parts: Parts,
    *,
    order: int = 0,
    outcome: Outcome = Outcome.COMPLETED,
    kind: Kind = Kind.CALL,
    tokens: TokenCounts | None = None,
    first_token_ms: float | None = None,
    gaps_ms: Iterable[float] = (),
) -> RequestRecord:
    """Return a call with these consecutive segments, in milliseconds."""
    segments: list[Segment] = []
    at_ns = 0
    for name, length_ms, source in parts:
        end_ns = at_ns + round(length_ms * NS_PER_MS)
        segments.append(Segment(name, at_ns, end_ns, source))
        at_ns = end_ns
    gaps = tuple(MetricValue(round(gap * NS_PER_MS)) for gap in gaps_ms)
    metrics: dict[str, MetricValue] = {}
    if first_token_ms is not None:
        first = MetricValue(round(first_token_ms * NS_PER_MS))
        metrics["time_to_first_chunk"] = first
        metrics["time_to_first_token"] = first
        metrics["time_to_first_visible_token"] = first
    if gaps:
        count, excess_ns, ratio = stalls([gap.value for gap in gaps], 500 * NS_PER_MS)
        metrics["time_per_output_token"] = MetricValue(sum(g.value for g in gaps) // len(gaps))
        metrics["chunk_gap_max"] = MetricValue(max(gap.value for gap in gaps))
        metrics["stall_count"] = MetricValue(count)
        metrics["stall_duration"] = MetricValue(excess_ns)
        arrivals_ns = [0, *accumulate(gap.value for gap in gaps)]
        assert ratio is not None
        metrics["stall_ratio"] = MetricValue(ratio)
        if tokens is not None:
            before = tokens_before(len(arrivals_ns), len(arrivals_ns))
            first_ns = round((first_token_ms or 0) * NS_PER_MS)
            on_time = fluidity(
                [first_ns + arrival_ns for arrival_ns in arrivals_ns],
                before,
                due_ns=500 * NS_PER_MS,
                token_ns=200 * NS_PER_MS,
            )
            needed_ns = buffer_needed(arrivals_ns, before, reading_ns=200 * NS_PER_MS)
            metrics["fluidity"] = MetricValue(on_time)
            metrics["buffer_needed"] = MetricValue(needed_ns)
    return RequestRecord(
        name="chat smollm2",
        kind=kind,
        outcome=outcome,
        start_epoch_ns=order,
        duration_ns=at_ns,
        segments=tuple(segments),
        metrics=metrics,
        chunk_gaps=gaps,
        tokens=tokens or TokenCounts(),
    )


def ordinary(order: int, *, queue_ms: float = 12.0, prefill_ms: float = 180.0) -> RequestRecord:
    """Return a call similar to those of the demo."""
    gaps_ms = [40.0] * 10 if order % 8 else [40.0] * 9 + [740.0]
    return make_call(
        [
            ("connect", 0.4, Source.MEASURED),
            ("send", 0.2, Source.MEASURED),
            ("queue", queue_ms, Source.ESTIMATED),
            ("prefill", prefill_ms, Source.SERVER_REPORTED),
            ("decode", sum(gaps_ms), Source.SERVER_REPORTED),
            ("unattributed", 3.0, Source.UNKNOWN),
        ],
        order=order,
        tokens=TokenCounts(43, 0, 11, None, TokenSource.PROVIDER),
        first_token_ms=0.6 + queue_ms + prefill_ms,
        gaps_ms=gaps_ms,
    )


@pytest.fixture
def call() -> Callable[..., RequestRecord]:
    """A function that creates a call from its segments."""
    return make_call


@pytest.fixture
def forty_calls() -> tuple[RequestRecord, ...]:
    """Thirty-six fast calls, and four with a long queue."""
    quick = [ordinary(order) for order in range(36)]
    slow = [ordinary(order, queue_ms=6_000.0, prefill_ms=1_234.5) for order in range(36, 40)]
    return (*quick, *slow)


@pytest.fixture
def snapshot_of() -> Callable[[Iterable[RequestRecord]], Snapshot]:
    """A function that creates a snapshot of calls with a recorder."""

    def take(records: Iterable[RequestRecord]) -> Snapshot:
        recorder = Recorder(ManualClock(), keep=None)
        for record in records:
            recorder.record(record)
        return recorder.snapshot()

    return take
