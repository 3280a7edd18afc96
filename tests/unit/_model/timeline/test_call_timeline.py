"""The timeline of one call is exact to the nanosecond."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.segments import (
    Mark,
    Outcome,
    ReportedTimings,
    SegmentName,
    SegmentTotal,
    Source,
    totals,
)
from latspan._model.timeline import CallObservation, Reads, call_timeline
from latspan._model.wire import ChunkKind
from support.observations import any_observation, attempt_in_ms, reads_in_ms

MS = NS_PER_MS


def _totals(seen: CallObservation) -> dict[str, tuple[int, str]]:
    timeline = call_timeline(seen)
    assert timeline.duration_ns == sum(s.duration_ns for s in timeline.segments)
    return {
        total.name: (total.duration_ns // MS, total.source.value)
        for total in totals(timeline.segments)
    }


def _streamed(**given: Any) -> CallObservation:
    """Return a call that connects and sends until 30 ms and reads three tokens at 100, 120, 140."""
    defaults: dict[str, Any] = {
        "start_ns": 0,
        "done_ns": 145 * MS,
        "attempts": [
            attempt_in_ms(5, pool_acquired=8, connected=15, tls_done=25, sent=30, headers=60)
        ],
        "returned_ns": 61 * MS,
        "reads": reads_in_ms(
            (61, 90, ChunkKind.EMPTY),
            (90, 100, ChunkKind.VISIBLE),
            (100, 120, ChunkKind.VISIBLE),
            (120, 140, ChunkKind.VISIBLE),
            end=(140, 145),
        ),
        "output_tokens": 3,
    }
    return CallObservation(**{**defaults, **given})


def test_every_phase_of_the_transport_has_its_segment() -> None:
    """The instants of the transport divide the time before the wait; TLS is separate from TCP."""
    assert _totals(_streamed()) == {
        "prepare": (5, "measured"),
        "pool_wait": (3, "measured"),
        "connect": (7, "measured"),
        "tls": (10, "measured"),
        "send": (5, "measured"),
        "server_wait": (70, "measured"),
        "decode": (40, "measured"),
        "stream_close": (5, "measured"),
    }


def test_dns_is_a_segment_if_the_client_reports_it() -> None:
    """The rest of connecting is then TCP."""
    attempt = attempt_in_ms(5, pool_acquired=8, dns_done=10, connected=15, sent=30, headers=60)
    totals = _totals(_streamed(attempts=[attempt]))
    assert totals["dns"] == (2, "measured")
    assert totals["tcp"] == (5, "measured")
    assert "connect" not in totals


def test_a_reused_connection_has_no_connect_segment() -> None:
    """An unobserved segment is absent, not zero."""
    totals = _totals(_streamed(attempts=[attempt_in_ms(5, pool_acquired=6, sent=30, headers=60)]))
    assert "connect" not in totals
    assert "tls" not in totals


def test_metrics_of_a_stream_are_exact() -> None:
    """TTFC ends at the first chunk, TTFT at the first chunk with a token."""
    metrics = call_timeline(_streamed()).metrics
    assert metrics["duration"].value == 145 * MS
    assert metrics["time_to_first_chunk"].value == 90 * MS
    assert metrics["time_to_first_token"].value == 100 * MS
    assert metrics["time_to_first_visible_token"].value == 100 * MS
    assert metrics["time_per_output_token"].value == 20 * MS
    assert metrics["chunk_gap_max"].value == 20 * MS
    assert {value.source for value in metrics.values()} == {Source.MEASURED}


def test_metrics_that_need_a_token_count_are_estimated_if_the_count_is() -> None:
    """Even if the estimate equals the number of chunks with tokens."""
    metrics = call_timeline(_streamed(tokens_estimated=True)).metrics
    estimated = {name for name, value in metrics.items() if value.source is Source.ESTIMATED}
    assert estimated == {"time_per_output_token", "fluidity", "buffer_needed"}


@pytest.mark.parametrize("output_tokens", [None, 0, -196])
def test_metrics_that_need_a_token_count_are_undefined_without_one(
    output_tokens: int | None,
) -> None:
    """A count below 1 contradicts a stream that contained tokens."""
    metrics = call_timeline(_streamed(output_tokens=output_tokens)).metrics
    assert not {"time_per_output_token", "fluidity", "buffer_needed"} & metrics.keys()


@pytest.mark.parametrize(("output_tokens", "choices"), [(None, 1), (0, 1), (1, 1), (3, 2)])
def test_time_per_output_token_is_undefined_rather_than_zero(
    output_tokens: int | None, choices: int
) -> None:
    """Fewer than two tokens, no count, or several choices: the metric is omitted."""
    seen = _streamed(output_tokens=output_tokens, choices=choices)
    assert "time_per_output_token" not in call_timeline(seen).metrics


def test_reasoning_is_a_separate_segment() -> None:
    """From the first reasoning token to the first visible one."""
    reads = reads_in_ms(
        (61, 100, ChunkKind.REASONING),
        (100, 110, ChunkKind.REASONING),
        (110, 125, ChunkKind.VISIBLE),
        (125, 140, ChunkKind.VISIBLE),
        end=(140, 145),
    )
    timeline = call_timeline(_streamed(reads=reads))
    lengths = {total.name: total.duration_ns for total in totals(timeline.segments)}
    assert lengths["reasoning"] == 25 * MS
    assert lengths["decode"] == 15 * MS
    assert timeline.metrics["time_to_first_token"].value == 100 * MS
    assert timeline.metrics["time_to_first_visible_token"].value == 125 * MS


class TestEvidence:
    """Reported server timings are reconciled into the measured ones."""

    LLAMA = ReportedTimings(
        "llama_cpp", prefill_ns=30 * MS, decode_ns=38 * MS, queue_until_headers=True
    )

    def test_the_rest_of_a_fully_reported_wait_is_network(self) -> None:
        """The queue lasts until the headers; after prefill and decode, the rest is network."""
        assert _totals(_streamed(reported=(self.LLAMA,))) == {
            "prepare": (5, "measured"),
            "pool_wait": (3, "measured"),
            "connect": (7, "measured"),
            "tls": (10, "measured"),
            "send": (5, "measured"),
            "queue": (30, "estimated"),
            "prefill": (30, "server_reported"),
            "network": (12, "estimated"),
            "decode": (38, "server_reported"),
            "stream_close": (5, "measured"),
        }

    def test_the_network_is_one_contiguous_interval(self) -> None:
        """The rest before the first token is adjacent to the rest after it."""
        segments = call_timeline(_streamed(reported=(self.LLAMA,))).segments
        assert [segment.name for segment in segments].count("network") == 1

    def test_no_network_time_is_recorded_as_zero(self) -> None:
        """The report explains every nanosecond, so the zero is known."""
        reported = ReportedTimings(
            "llama_cpp", prefill_ns=40 * MS, decode_ns=40 * MS, queue_until_headers=True
        )
        timeline = call_timeline(_streamed(reported=(reported,)))
        assert [t for t in totals(timeline.segments) if t.name == "network"] == [
            SegmentTotal("network", 0, Source.ESTIMATED)
        ]

    def test_a_report_without_a_queue_leaves_a_composite_wait(self) -> None:
        """The rest of the wait is unknown and must not be called network."""
        reported = ReportedTimings("other", prefill_ns=30 * MS, decode_ns=38 * MS)
        totals = _totals(_streamed(reported=(reported,)))
        assert totals["server_wait"] == (40, "measured")
        assert totals["prefill"] == (30, "server_reported")
        assert totals["decode"] == (40, "measured")
        assert "network" not in totals

    def test_a_prefill_that_starts_before_the_headers_shortens_the_queue(self) -> None:
        """The headers are only the latest end of the queue; the reported prefill has priority."""
        reported = ReportedTimings(
            "llama_cpp", prefill_ns=55 * MS, decode_ns=38 * MS, queue_until_headers=True
        )
        totals = _totals(_streamed(reported=(reported,)))
        assert totals["queue"] == (15, "estimated")
        assert totals["prefill"] == (55, "server_reported")

    @pytest.mark.parametrize("prefill_ms", [70, 75, 80])
    def test_a_small_excess_is_cut(self, prefill_ms: int) -> None:
        """The server may start during the 5 ms of sending, and a tolerance of 5 ms is added."""
        reported = ReportedTimings(
            "llama_cpp", prefill_ns=prefill_ms * MS, decode_ns=38 * MS, queue_until_headers=True
        )
        totals = _totals(_streamed(reported=(reported,)))
        assert totals["prefill"] == (70, "server_reported")
        assert totals["queue"] == (0, "estimated")
        assert totals["send"] == (5, "measured")

    def test_an_excess_of_one_percent_is_cut_if_that_is_more(self) -> None:
        """Of 1,005 ms since the start of sending, 10 ms are within the tolerance."""
        reads = reads_in_ms((61, 1030, ChunkKind.VISIBLE), end=(1030, 1031))
        reported = ReportedTimings(
            "llama_cpp", prefill_ns=1015 * MS, decode_ns=0, queue_until_headers=True
        )
        seen = _streamed(reads=reads, reported=(reported,), done_ns=1031 * MS)
        assert "evidence_rejected" not in call_timeline(seen).metrics

    @pytest.mark.parametrize(("prefill_ms", "decode_ms"), [(81, 38), (-1, 38), (30, 96), (30, -1)])
    def test_an_impossible_report_is_rejected_as_a_whole(
        self, prefill_ms: int, decode_ms: int
    ) -> None:
        """If one of its times is impossible, the others are not used either."""
        reported = ReportedTimings(
            "llama_cpp",
            prefill_ns=prefill_ms * MS,
            decode_ns=decode_ms * MS,
            queue_until_headers=True,
        )
        timeline = call_timeline(_streamed(reported=(reported,)))
        assert timeline.metrics["evidence_rejected"].value == 1
        assert not {"queue", "prefill", "network"} & {t.name for t in totals(timeline.segments)}

    def test_generation_can_start_before_the_first_token_is_read(self) -> None:
        """If the first token was read late, the reported generation starts before the read."""
        reported = ReportedTimings(
            "llama_cpp", prefill_ns=10 * MS, decode_ns=70 * MS, queue_until_headers=True
        )
        # 45 ms remain from the first token to the end, so 25 of the 70 ms were before it.
        totals = _totals(_streamed(reported=(reported,)))
        assert totals["queue"] == (30, "estimated")
        assert totals["prefill"] == (10, "server_reported")
        assert totals["network"] == (5, "estimated")
        assert totals["decode"] == (65, "server_reported")

    def test_generation_after_the_last_token_belongs_to_the_streams_end(self) -> None:
        """A server counts its end token too; time after the last token leaves the network as is."""
        reported = ReportedTimings(
            "llama_cpp", prefill_ns=30 * MS, decode_ns=45 * MS, queue_until_headers=True
        )
        totals = _totals(_streamed(reported=(reported,)))
        assert totals["network"] == (10, "estimated")
        assert totals["decode"] == (40, "server_reported")
        assert totals["stream_close"] == (5, "measured")

    def test_reasoning_and_decode_share_the_reported_generation_as_estimates(self) -> None:
        """The server reports one time for both; latspan divides it."""
        reads = reads_in_ms(
            (61, 100, ChunkKind.REASONING),
            (100, 120, ChunkKind.VISIBLE),
            (120, 140, ChunkKind.VISIBLE),
            end=(140, 145),
        )
        reported = ReportedTimings(
            "llama_cpp", prefill_ns=30 * MS, decode_ns=30 * MS, queue_until_headers=True
        )
        totals = _totals(_streamed(reads=reads, reported=(reported,)))
        assert totals["reasoning"] == (15, "estimated")
        assert totals["decode"] == (15, "estimated")

    def test_an_unstreamed_response_keeps_a_composite_wait(self) -> None:
        """Prefill and decode are reported; queue and network cannot be separated."""
        attempt = attempt_in_ms(5, pool_acquired=6, sent=10, headers=110, body_end=111)
        seen = CallObservation(
            start_ns=0,
            done_ns=115 * MS,
            attempts=[attempt],
            returned_ns=115 * MS,
            reported=(ReportedTimings("llama_cpp", prefill_ns=30 * MS, decode_ns=50 * MS),),
        )
        assert _totals(seen) == {
            "prepare": (5, "measured"),
            "pool_wait": (1, "measured"),
            "send": (4, "measured"),
            "server_wait": (21, "measured"),
            "prefill": (30, "server_reported"),
            "decode": (50, "server_reported"),
            "postprocess": (4, "measured"),
        }


class TestReader:
    """Time is divided between the stream and its reader."""

    @staticmethod
    def _read_with_hold(hold_ms: int, *reported: ReportedTimings) -> CallObservation:
        """Return a call with a token every 20 ms from 100 ms on, each held by the reader."""
        reads = Reads()
        now = 61
        for index in range(10):
            arrival = 100 + 20 * index
            before = now
            now = max(now, arrival)
            reads.add(before * MS, now * MS, ChunkKind.VISIBLE)
            now += hold_ms
        end = max(now, 281)
        reads.end = (now * MS, end * MS)
        return _streamed(reads=reads, done_ns=end * MS, output_tokens=10, reported=reported)

    @pytest.mark.parametrize("hold_ms", [0, 5, 15, 25, 50])
    def test_gaps_are_exact_or_estimated(self, hold_ms: int) -> None:
        """A measured gap is the server's 20 ms, however slow the reader is."""
        timeline = call_timeline(self._read_with_hold(hold_ms))
        measured = [g.value for g in timeline.chunk_gaps if g.source is Source.MEASURED]
        assert set(measured) <= {20 * MS}
        assert bool(measured) == (hold_ms < 20)
        pace = timeline.metrics["time_per_output_token"]
        assert pace.source is not Source.MEASURED or pace.value == 20 * MS
        assert (pace.source is Source.MEASURED) == (hold_ms < 20)

    def test_time_held_by_the_reader_is_consumer(self) -> None:
        """With 50 ms per chunk, every later read finds its chunk waiting: nine holds."""
        totals = _totals(self._read_with_hold(50))
        assert totals["consumer"] == (9 * 50 + 50, "measured")
        assert "decode" not in totals

    def test_reader_time_is_decode_if_the_reader_still_had_to_wait(self) -> None:
        """With 15 ms per chunk, the stream is slower; only its end was already there."""
        totals = _totals(self._read_with_hold(15))
        assert totals["decode"] == (180, "measured")
        assert totals["consumer"] == (15, "measured")

    def test_the_reported_pace_is_used_if_arrivals_are_unknown(self) -> None:
        """The reported decode time gives the pace that the slow reader hid."""
        reported = ReportedTimings(
            "llama_cpp", prefill_ns=30 * MS, decode_ns=180 * MS, queue_until_headers=True
        )
        pace = call_timeline(self._read_with_hold(50, reported)).metrics["time_per_output_token"]
        assert pace.value == 20 * MS
        assert pace.source is Source.SERVER_REPORTED

    def test_ttft_is_estimated_if_the_first_chunk_was_waiting(self) -> None:
        """The read time is only an upper bound."""
        reads = reads_in_ms((500, 500, ChunkKind.VISIBLE), end=(500, 501))
        timeline = call_timeline(_streamed(reads=reads, done_ns=501 * MS))
        assert timeline.metrics["time_to_first_token"].source is Source.ESTIMATED
        assert {t.name: t.duration_ns for t in totals(timeline.segments)}["consumer"] == 439 * MS


class TestEnds:
    """Time is assigned correctly for every way in which a call can end."""

    def test_earlier_attempts_and_their_backoff_are_retry(self) -> None:
        """From the start of the first attempt to the start of the last one."""
        first = attempt_in_ms(2, pool_acquired=3, sent=4, headers=6, end=6)
        first.error_type = "429"
        seen = _streamed(
            attempts=[
                attempt_in_ms(20, pool_acquired=21, sent=30, headers=60),
                first,
            ]
        )
        totals = _totals(seen)
        assert totals["prepare"] == (2, "measured")
        assert totals["retry"] == (18, "measured")

    @pytest.mark.parametrize(
        ("phase", "later"),
        [
            (SegmentName.POOL_WAIT, {}),
            (SegmentName.CONNECT, {"pool_acquired": 8}),
            (SegmentName.TLS, {"pool_acquired": 8, "connected": 12}),
            (SegmentName.SEND, {"pool_acquired": 8, "connected": 12}),
            (SegmentName.SERVER_WAIT, {"pool_acquired": 8, "connected": 12, "sent": 14}),
        ],
    )
    def test_a_failed_attempt_is_assigned_to_the_phase_in_which_it_failed(
        self, phase: SegmentName, later: dict[str, int]
    ) -> None:
        """For example, a pool timeout is a wait for the pool."""
        attempt = attempt_in_ms(5, **later, end=100)
        attempt.phase = phase
        attempt.error_type = "Timeout"
        seen = CallObservation(
            start_ns=0, done_ns=102 * MS, outcome=Outcome.TIMEOUT, attempts=[attempt]
        )
        timeline = call_timeline(seen)
        assert timeline.segments[-2].name == phase
        assert timeline.segments[-2].end_ns == 100 * MS
        assert timeline.segments[-1].name == "postprocess"

    def test_cancellation_during_a_backoff_is_retry(self) -> None:
        """No attempt was in progress."""
        attempt = attempt_in_ms(5, pool_acquired=8, sent=10, headers=20, end=20)
        attempt.error_type = "429"
        seen = CallObservation(
            start_ns=0, done_ns=300 * MS, outcome=Outcome.CANCELLED, attempts=[attempt]
        )
        totals = _totals(seen)
        assert totals["server_wait"] == (10, "measured")
        assert totals["retry"] == (280, "measured")

    def test_a_stream_closed_early_is_consumer_until_the_close(self) -> None:
        """The caller held the stream after the last read; the close itself is the stream's time."""
        reads = reads_in_ms((61, 100, ChunkKind.VISIBLE))
        seen = _streamed(
            reads=reads,
            outcome=Outcome.CLOSED_EARLY,
            close_started_ns=200 * MS,
            done_ns=203 * MS,
        )
        totals = _totals(seen)
        assert totals["consumer"] == (100, "measured")
        assert totals["stream_close"] == (3, "measured")

    @pytest.mark.parametrize(
        ("outcome", "name"),
        [(Outcome.COMPLETED, "stream_close"), (Outcome.TIMEOUT, "server_wait")],
    )
    def test_a_timeout_between_tokens_is_not_stream_close(
        self, outcome: Outcome, name: str
    ) -> None:
        """The caller was waiting for another token when the stream broke off."""
        reads = reads_in_ms((61, 100, ChunkKind.VISIBLE), end=(100, 900))
        totals = _totals(_streamed(reads=reads, outcome=outcome, done_ns=900 * MS))
        assert totals[name][0] >= 800

    def test_without_transport_instants_the_time_before_the_stream_is_unattributed(self) -> None:
        """The connection and the server cannot be separated."""
        totals = _totals(_streamed(attempts=[]))
        assert totals["unattributed"] == (61, "unknown")
        assert totals["server_wait"] == (39, "measured")


@given(seen=any_observation())
def test_segments_tile_the_duration_for_any_observation(seen: CallObservation) -> None:
    """In any order and with any part missing: no gap, no overlap, no lost nanosecond."""
    timeline = call_timeline(seen)
    assert timeline.duration_ns >= 0
    edge = 0
    for segment in timeline.segments:
        assert segment.start_ns == edge
        assert segment.duration_ns > 0 or segment.source is not Source.MEASURED
        edge = segment.end_ns
    assert edge == timeline.duration_ns
    assert timeline.marks[Mark.DONE] - timeline.marks[Mark.START] == timeline.duration_ns
