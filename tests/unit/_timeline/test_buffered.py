"""A stream that was held back on its way is told from a fast one and from a slow reader."""

from __future__ import annotations

from typing import Any

import pytest

from latspan import semconv
from latspan._segments import Mark, Outcome, ReportedTimings, Source, totals
from latspan._spans import latency_attributes
from latspan._timeline import Attempt, CallObservation, Reads, Timeline, call_timeline
from latspan._units import NS_PER_MS
from latspan._wire import ChunkKind

MS = NS_PER_MS
FIRST_MS = 600
"""When the first token was read, after a request that was sent at 10 ms."""


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
    Read a stream whose first token comes 600 ms after the call.

    Args:
        reported: What its server says.
        chunks: How many bear a token.
        gap_ms: How long each read but the first takes.
        held_ms: How long the caller holds the stream before each of those.
        away_ms: How long the caller is away before the first read, which then finds the token.
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


def test_a_burst_that_the_server_took_long_over_was_buffered() -> None:
    """16 tokens within 1.5 ms, of which the server says that they took it 400 ms."""
    assert _is_flagged(_read(_reported()))


def test_its_first_token_is_known_at_the_latest_and_its_gaps_not_at_all() -> None:
    """What rests on when tokens came is estimated where that is a bound, else there is none."""
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


def test_its_span_says_so() -> None:
    """The values stay on it, and are listed as what they are."""
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


def test_its_segments_are_the_servers_own_times() -> None:
    """Generation is where it was, before the burst."""
    timeline = _read(_reported())
    split = {each.name: (each.duration_ns, each.source) for each in totals(timeline.segments)}
    burst_ns = 15 * MS // 10

    assert split["queue"] == (20 * MS, Source.SERVER_REPORTED)
    assert split["prefill"] == (100 * MS, Source.SERVER_REPORTED)
    assert split["decode"] == (400 * MS, Source.SERVER_REPORTED)
    assert split["network"] == ((590 - 520) * MS + burst_ns, Source.ESTIMATED)
    assert sum(length for length, _ in split.values()) == timeline.duration_ns


def test_a_burst_is_no_decode_where_the_server_does_not_say_all() -> None:
    """The wait and the burst are one: nobody knows where in it the generation was."""
    timeline = _read(_reported(queue_ns=None))
    split = {each.name: each.duration_ns for each in totals(timeline.segments)}

    assert _is_flagged(timeline)
    assert "decode" not in split
    assert split["server_wait"] + split["prefill"] == 590 * MS + 15 * MS // 10


def test_a_stream_that_came_as_it_was_made_is_measured() -> None:
    """The pace that the client saw is the server's."""
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
def test_a_burst_alone_proves_nothing(why: str, reported: ReportedTimings | None) -> None:
    """A fast server, a cache and a late client look the same from here."""
    timeline = _read(reported)

    assert not _is_flagged(timeline), why
    assert timeline.metrics["time_to_first_token"].source is Source.MEASURED


def test_a_few_chunks_prove_nothing() -> None:
    """A server may write several tokens at once."""
    assert not _is_flagged(_read(_reported(), chunks=7))
    assert _is_flagged(_read(_reported(), chunks=8))


def test_a_stream_in_several_bursts_is_not_said_to_be_buffered() -> None:
    """Somebody who sends on what came every 200 ms keeps the first token's time."""
    assert not _is_flagged(_read(_reported(), chunks=3, gap_ms=200))


def test_a_caller_who_was_away_is_not_a_gateway() -> None:
    """The tokens waited for the first read, and not the other way round."""
    timeline = _read(_reported(), away_ms=FIRST_MS)

    assert not _is_flagged(timeline)
    assert timeline.metrics["time_to_first_token"].source is Source.ESTIMATED


def test_a_caller_who_works_a_little_does_not_hide_it() -> None:
    """Reads that find their chunks waiting behind a burst are part of it."""
    assert _is_flagged(_read(_reported(), held_ms=2))


def test_a_caller_who_works_as_long_as_the_server_hides_it() -> None:
    """Then the tokens may as well have come while the caller worked."""
    assert not _is_flagged(_read(_reported(), held_ms=30))
