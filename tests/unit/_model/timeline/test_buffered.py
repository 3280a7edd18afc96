"""A buffered stream is distinguished from a fast server and from a slow reader."""

from __future__ import annotations

from typing import Any

import pytest

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_MS
from latspan._live.otel.spans import latency_attributes
from latspan._model.segments import Mark, Outcome, ReportedTimings, Source, totals
from latspan._model.timeline import Attempt, CallObservation, Reads, Timeline, call_timeline
from latspan._model.wire import ChunkKind

MS = NS_PER_MS
FIRST_MS = 600
"""Time at which the first token is read; the request is sent at 10 ms."""


def _reported(decode_ms: int | None = 400, **given: Any) -> ReportedTimings:
    said: dict[str, Any] = {
        "system": "test",
        "queue_ns": 20 * MS,
        "prefill_ns": 100 * MS,
        "decode_ns": None if decode_ms is None else decode_ms * MS,
    }
    return ReportedTimings(**{**said, **given})


def _read(
    reported: ReportedTimings | None,
    *,
    chunks: int = 16,
    gap_ms: float = 0.1,
    held_ms: float = 0.0,
    away_ms: int = 0,
) -> Timeline:
    """
    Read a stream whose first token arrives 600 ms after the start of the call.

    Args:
        reported: Timings reported by the server.
        chunks: Number of chunks with a token.
        gap_ms: Duration of each read except the first.
        held_ms: Time for which the caller holds the stream before each of these reads.
        away_ms: Delay before the first read, which then finds the token waiting.
    """
    before = (11 if not away_ms else 11 + away_ms) * MS
    after = max(before, FIRST_MS * MS)
    reads = Reads()
    reads.add(before, after, ChunkKind.VISIBLE)
    for _ in range(chunks - 1):
        before = after + round(held_ms * MS)
        after = before + round(gap_ms * MS)
        reads.add(before, after, ChunkKind.VISIBLE)
    reads.end = (after, after)
    return call_timeline(
        CallObservation(
            start_ns=0,
            done_ns=after,
            attempts=[
                Attempt(
                    0,
                    pool_acquired_ns=0,
                    connected_ns=5 * MS,
                    sent_ns=10 * MS,
                    headers_ns=11 * MS,
                )
            ],
            returned_ns=11 * MS,
            reads=reads,
            reported=() if reported is None else (reported,),
            output_tokens=chunks,
        )
    )


def _is_flagged(timeline: Timeline) -> bool:
    return "buffered" in timeline.metrics


def test_a_burst_of_tokens_with_a_longer_decode_is_flagged_as_buffered() -> None:
    """16 tokens arrive within 1.5 ms, and the server reports 400 ms for them."""
    assert _is_flagged(_read(_reported()))


def test_a_buffered_stream_has_an_estimated_first_token_and_no_gaps() -> None:
    """Metrics from arrival times are estimated if they are bounds, and omitted otherwise."""
    timeline = _read(_reported())
    metrics = timeline.metrics

    assert {
        name: (value.value, value.source)
        for name, value in metrics.items()
        if name.startswith("time_")
    } == {
        "time_to_first_chunk": (FIRST_MS * MS, Source.ESTIMATED),
        "time_to_first_token": (FIRST_MS * MS, Source.ESTIMATED),
        "time_to_first_visible_token": (FIRST_MS * MS, Source.ESTIMATED),
        # The server's own pace.
        "time_per_output_token": (round(400 * MS / 15), Source.SERVER_REPORTED),
    }
    assert timeline.chunk_gaps == ()
    assert metrics.keys() == {
        "duration",
        "buffered",
        "time_to_first_chunk",
        "time_to_first_token",
        "time_to_first_visible_token",
        "time_per_output_token",
    }
    assert timeline.marks[Mark.FIRST_TOKEN] == FIRST_MS * MS


def test_the_span_of_a_buffered_stream_is_marked() -> None:
    """Its values stay on the span and are listed as estimated."""
    said = latency_attributes(_read(_reported()), Outcome.COMPLETED, ())

    assert said[semconv.LATSPAN_BUFFERED] is True
    assert said[semconv.LATSPAN_TIME_TO_FIRST_TOKEN] == FIRST_MS / 1000
    assert said[semconv.LATSPAN_ESTIMATED_ATTRIBUTES] == [
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        semconv.LATSPAN_TIME_TO_FIRST_TOKEN,
        semconv.LATSPAN_TIME_TO_FIRST_VISIBLE_TOKEN,
        semconv.LATSPAN_TIME_PER_OUTPUT_TOKEN,
    ]
    assert semconv.LATSPAN_BUFFERED not in latency_attributes(
        _read(_reported(), gap_ms=25), Outcome.COMPLETED, ()
    )


def test_segments_of_a_buffered_stream_are_the_reported_ones() -> None:
    """Generation took place before the burst."""
    timeline = _read(_reported())
    split = {each.name: (each.duration_ns, each.source) for each in totals(timeline.segments)}
    burst_ns = 15 * MS // 10

    assert split["queue"] == (20 * MS, Source.SERVER_REPORTED)
    assert split["prefill"] == (100 * MS, Source.SERVER_REPORTED)
    assert split["decode"] == (400 * MS, Source.SERVER_REPORTED)
    assert split["network"] == ((590 - 520) * MS + burst_ns, Source.ESTIMATED)
    assert sum(length for length, _ in split.values()) == timeline.duration_ns


def test_a_buffered_stream_without_a_full_report_has_no_decode() -> None:
    """The position of the generation in the wait and the burst is unknown."""
    timeline = _read(_reported(queue_ns=None))
    split = {each.name: each.duration_ns for each in totals(timeline.segments)}

    assert _is_flagged(timeline)
    assert "decode" not in split
    assert split["server_wait"] + split["prefill"] == 590 * MS + 15 * MS // 10


def test_an_unbuffered_stream_is_measured() -> None:
    """The pace at the client equals the server's."""
    timeline = _read(_reported(), gap_ms=25)

    assert not _is_flagged(timeline)
    assert timeline.metrics["time_to_first_token"].source is Source.MEASURED
    assert len(timeline.chunk_gaps) == 15


@pytest.mark.parametrize(
    ("why", "reported"),
    [
        ("nobody says how long it took", None),
        ("its server does not say how long it took", _reported(None)),
        ("its server is fast", _reported(2)),
        ("its client may have been late", _reported(90)),
        ("its server's report does not fit", _reported(2000)),
    ],
    ids=lambda given: given.replace(" ", "_") if isinstance(given, str) else "",
)
def test_a_burst_alone_is_not_flagged_as_buffered(
    why: str, reported: ReportedTimings | None
) -> None:
    """A fast server, a cache and a late client look the same from here."""
    timeline = _read(reported)

    assert not _is_flagged(timeline), why
    assert timeline.metrics["time_to_first_token"].source is Source.MEASURED


def test_few_chunks_are_not_flagged_as_buffered() -> None:
    """A server may write several tokens at once."""
    assert not _is_flagged(_read(_reported(), chunks=7))
    assert _is_flagged(_read(_reported(), chunks=8))


def test_a_stream_in_several_bursts_is_not_flagged_as_buffered() -> None:
    """A gateway that forwards its data every 200 ms does not delay the first token much."""
    assert not _is_flagged(_read(_reported(), chunks=3, gap_ms=200))


def test_a_late_first_read_is_not_flagged_as_buffered() -> None:
    """The tokens waited for the reader; the reader did not wait for the tokens."""
    timeline = _read(_reported(), away_ms=FIRST_MS)

    assert not _is_flagged(timeline)
    assert timeline.metrics["time_to_first_token"].source is Source.ESTIMATED


def test_a_briefly_busy_caller_does_not_hide_buffering() -> None:
    """Reads that find their chunks waiting after a burst are part of it."""
    assert _is_flagged(_read(_reported(), held_ms=2))


def test_a_caller_busier_than_the_server_hides_buffering() -> None:
    """The tokens may have arrived while the caller was busy."""
    assert not _is_flagged(_read(_reported(), held_ms=30))
