"""Blocks of the event loop are separated from the segments of a call, to the nanosecond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.segments import Outcome, ReportedTimings, Source, totals
from latspan._model.timeline import CallObservation, Reads, call_timeline
from latspan._model.wire import ChunkKind
from support.observations import any_observation, attempt_in_ms, reads_in_ms

MS = NS_PER_MS


def _segments(seen: CallObservation) -> list[tuple[str, int, int, str]]:
    """Return name, begin and end in milliseconds, and source, of each segment."""
    return [
        (name, begin_ns // MS, end_ns // MS, source.value)
        for name, begin_ns, end_ns, source in call_timeline(seen).segments
    ]


def _totals(seen: CallObservation) -> dict[str, int]:
    return {
        name: duration_ns // MS for name, duration_ns, _ in totals(call_timeline(seen).segments)
    }


def _blocks(*blocks: tuple[int, int]) -> list[tuple[int, int]]:
    return [(begin * MS, end * MS) for begin, end in blocks]


def _call(*blocks: tuple[int, int], **given: Any) -> CallObservation:
    """Return a call that is not streamed: sent at 10 ms, its response read at 100 ms."""
    defaults: dict[str, Any] = {
        "start_ns": 0,
        "done_ns": 101 * MS,
        "returned_ns": 101 * MS,
        "attempts": [
            attempt_in_ms(1, pool_acquired=2, connected=8, sent=10, headers=99, body_end=100)
        ],
        "blocks": _blocks(*blocks),
    }
    return CallObservation(**{**defaults, **given})


def _stream(*blocks: tuple[int, int], **given: Any) -> CallObservation:
    """Return a stream: sent at 10 ms, handed over at 60, tokens at 100, 120 and 140 ms."""
    defaults: dict[str, Any] = {
        "start_ns": 0,
        "done_ns": 145 * MS,
        "returned_ns": 60 * MS,
        "attempts": [attempt_in_ms(1, pool_acquired=2, connected=8, sent=10, headers=60)],
        "reads": reads_in_ms(
            (60, 100, ChunkKind.VISIBLE),
            (100, 120, ChunkKind.VISIBLE),
            (120, 140, ChunkKind.VISIBLE),
            end=(140, 145),
        ),
        "output_tokens": 3,
        "blocks": _blocks(*blocks),
    }
    return CallObservation(**{**defaults, **given})


_EVENT_LOOP = "event_loop"


class TestPrepare:
    """A block delays the first attempt only if something else than the call ran on the loop."""

    @pytest.mark.parametrize(
        ("other", "expected"),
        [
            (80, [("prepare", 0, 20, "measured"), ("event_loop", 20, 80, "measured")]),
            (
                60,
                [
                    ("prepare", 0, 20, "measured"),
                    ("event_loop", 20, 60, "measured"),
                    ("prepare", 60, 80, "measured"),
                ],
            ),
            (None, [("prepare", 0, 80, "measured")]),
        ],
        ids=["waited", "waited and computed", "computed"],
    )
    def test_time_of_the_calls_own_code_is_no_delay(
        self, other: int | None, expected: list[tuple[str, int, int, str]]
    ) -> None:
        """Imports of a library in its first call block the loop, and are ``prepare``."""
        seen = _call(
            (20, 81),
            attempts=[attempt_in_ms(80, pool_acquired=85, sent=90, headers=99, body_end=100)],
            prepare_other_ns=None if other is None else other * MS,
        )

        assert _segments(seen)[: len(expected)] == expected


class TestTransport:
    """A block delays the phases of the transport."""

    @pytest.mark.parametrize(
        ("block", "expected"),
        [
            ((1, 3), ("event_loop", 1, 2, "measured")),
            ((4, 9), ("event_loop", 4, 8, "measured")),
            ((8, 11), ("event_loop", 8, 10, "measured")),
        ],
        ids=["pool_wait", "connect", "send"],
    )
    def test_of_a_delayed_phase_only_the_time_before_the_block_remains(
        self, block: tuple[int, int], expected: tuple[str, int, int, str]
    ) -> None:
        """The interval up to the stamp is the loop's."""
        assert expected in _segments(_call(block))

    def test_several_instants_in_one_block_are_delayed_once(self) -> None:
        """The loop stamps them while it catches up."""
        assert _segments(_call((1, 10))) == [
            ("prepare", 0, 1, "measured"),
            ("event_loop", 1, 10, "measured"),
            ("server_wait", 10, 100, "measured"),
            ("postprocess", 100, 101, "measured"),
        ]

    def test_the_callers_own_code_before_the_transport_is_prepare(self) -> None:
        """The loop is busy with this call then."""
        attempt = attempt_in_ms(40, pool_acquired=41, sent=42, headers=99, body_end=100)
        assert _EVENT_LOOP not in _totals(_call((5, 40), attempts=[attempt]))

    def test_a_time_limit_that_fires_late_is_the_loops(self) -> None:
        """The attempt ended when the loop could run the timer."""
        attempt = replace(
            attempt_in_ms(1, pool_acquired=2, connected=8, sent=10, end=100), error_type="timeout"
        )
        seen = _call((70, 100), attempts=[attempt], returned_ns=None, outcome=Outcome.TIMEOUT)
        assert _totals(seen)["event_loop"] == 30

    def test_a_back_off_that_ends_late_is_the_loops(self) -> None:
        """The next attempt began when the loop could run the timer."""
        failed = replace(attempt_in_ms(1, end=5), error_type="500")
        attempt = attempt_in_ms(40, pool_acquired=41, sent=42, headers=99, body_end=100)
        seen = _call((20, 40), attempts=[failed, attempt])
        assert _segments(seen)[:3] == [
            ("prepare", 0, 1, "measured"),
            ("retry", 1, 20, "measured"),
            ("event_loop", 20, 40, "measured"),
        ]

    def test_without_transport_instants_the_return_is_what_was_awaited(self) -> None:
        """A client library without transport instrumentation is delayed as well."""
        assert _segments(_call((60, 101), attempts=[]))[:2] == [
            ("unattributed", 0, 60, "unknown"),
            ("event_loop", 60, 101, "measured"),
        ]


class TestWait:
    """A block delays the response, or it does not."""

    def test_a_response_that_came_in_a_block_was_delayed_since_its_begin(self) -> None:
        """The server may have sent it at any time in the block."""
        assert _segments(_call((30, 100)))[-3:] == [
            ("server_wait", 10, 30, "measured"),
            ("event_loop", 30, 100, "measured"),
            ("postprocess", 100, 101, "measured"),
        ]

    def test_a_block_before_the_loop_was_idle_again_delayed_nothing(self) -> None:
        """The server was still working."""
        assert _EVENT_LOOP not in _totals(_call((30, 98)))

    def test_less_than_a_millisecond_is_not_separated(self) -> None:
        """Callbacks of other tasks take that long all the time."""
        seen = replace(_call(), blocks=[(99 * MS + 1, 100 * MS)])
        assert _EVENT_LOOP not in _totals(seen)

    def test_a_body_that_the_caller_reads_itself_is_not_awaited(self) -> None:
        """Whether the caller or the server took the time is unknown; the headers were awaited."""
        attempt = attempt_in_ms(1, pool_acquired=2, sent=10, headers=50, body_end=100)
        seen = _call((30, 50), (80, 100), attempts=[attempt], body_is_the_callers=True)
        assert _totals(seen)["event_loop"] == 20
        assert _totals(seen)["unattributed"] == 50

    def test_the_first_token_was_delayed_since_the_begin_of_the_block(self) -> None:
        """The block hides headers, stream and token."""
        reads = reads_in_ms((60, 60, ChunkKind.VISIBLE), (60, 120, ChunkKind.VISIBLE))
        assert _segments(_stream((20, 61), reads=reads))[4:7] == [
            ("server_wait", 10, 20, "measured"),
            ("event_loop", 20, 60, "measured"),
            ("decode", 60, 120, "measured"),
        ]

    def test_a_token_that_came_with_the_stream_ends_the_same_delay(self) -> None:
        """Otherwise the time between the two would interrupt the wait, which has a span."""
        empty = [60 * MS + 10_000, 60 * MS + 200_000, ChunkKind.EMPTY]
        token = [60 * MS + 220_000, 60 * MS + 300_000, ChunkKind.VISIBLE]
        seen = _stream((20, 62), reads=Reads([*empty, *token]), done_ns=61 * MS)
        assert [
            (segment.name, segment.end_ns) for segment in call_timeline(seen).segments[4:7]
        ] == [
            ("server_wait", 20 * MS),
            ("event_loop", 60 * MS + 300_000),
            ("consumer", 61 * MS),
        ]

    def test_a_token_that_the_caller_read_later_does_not(self) -> None:
        """The caller worked with the stream in its hands."""
        reads = reads_in_ms((80, 80, ChunkKind.VISIBLE), (80, 120, ChunkKind.VISIBLE))
        assert _segments(_stream((20, 81), reads=reads))[4:7] == [
            ("server_wait", 10, 20, "measured"),
            ("event_loop", 20, 60, "measured"),
            ("consumer", 60, 80, "measured"),
        ]

    def test_headers_that_were_delayed_before_an_idle_wait_delayed_nothing(self) -> None:
        """The first token came later, so the server was still working."""
        seen = _stream((20, 61))
        assert _EVENT_LOOP not in _totals(seen)
        assert call_timeline(seen).metrics["time_to_first_token"].source is Source.MEASURED

    def test_an_empty_chunk_that_was_delayed_before_an_idle_wait_delayed_nothing(self) -> None:
        """Only the time of that chunk is an estimate."""
        reads = reads_in_ms((60, 80, ChunkKind.EMPTY), (80, 140, ChunkKind.VISIBLE), end=(140, 145))
        seen = _stream((65, 81), reads=reads)
        assert _EVENT_LOOP not in _totals(seen)
        metrics = call_timeline(seen).metrics
        assert metrics["time_to_first_chunk"].source is Source.ESTIMATED
        assert metrics["time_to_first_token"].source is Source.MEASURED

    def test_a_wait_for_the_first_token_that_ends_in_a_block_is_cut_at_its_begin(self) -> None:
        """The headers came before the block."""
        assert _segments(_stream((70, 101)))[4:7] == [
            ("server_wait", 10, 70, "measured"),
            ("event_loop", 70, 100, "measured"),
            ("decode", 100, 140, "measured"),
        ]


class TestStream:
    """A block delays the reads of a stream."""

    def test_a_delayed_read_interleaves_decode(self) -> None:
        """The server generates tokens before and after the block."""
        assert _segments(_stream((105, 121)))[4:] == [
            ("server_wait", 10, 100, "measured"),
            ("decode", 100, 105, "measured"),
            ("event_loop", 105, 120, "measured"),
            ("decode", 120, 140, "measured"),
            ("stream_close", 140, 145, "measured"),
        ]

    def test_what_rests_on_a_delayed_arrival_is_estimated(self) -> None:
        """The two gaps beside it, the pace if it is the last token, and nothing else."""
        timeline = call_timeline(_stream((105, 121)))
        assert [gap.source.value for gap in timeline.chunk_gaps] == ["estimated", "estimated"]
        assert [gap.value // MS for gap in timeline.chunk_gaps] == [20, 20]
        assert timeline.metrics["time_to_first_token"].source is Source.MEASURED
        assert timeline.metrics["time_per_output_token"].source is Source.MEASURED
        last = call_timeline(_stream((125, 141))).metrics
        assert last["time_per_output_token"].source is Source.ESTIMATED

    def test_reads_at_once_after_a_delayed_one_are_estimated_too(self) -> None:
        """Their chunks may have arrived in the block."""
        reads = reads_in_ms(
            (60, 100, ChunkKind.VISIBLE),
            (100, 130, ChunkKind.VISIBLE),
            (130, 130, ChunkKind.VISIBLE),
            (130, 150, ChunkKind.VISIBLE),
            (150, 150, ChunkKind.VISIBLE),
        )
        timeline = call_timeline(_stream((105, 131), reads=reads, done_ns=150 * MS))
        assert [gap.source.value for gap in timeline.chunk_gaps] == [
            "estimated",
            "estimated",
            "estimated",
            "measured",
        ]

    def test_the_first_reads_of_a_stream_that_was_handed_over_in_a_block_are_estimated(
        self,
    ) -> None:
        """Their chunks may have arrived in the block as well."""
        reads = reads_in_ms((60, 60, ChunkKind.VISIBLE), (60, 120, ChunkKind.VISIBLE))
        metrics = call_timeline(_stream((20, 60), reads=reads)).metrics
        assert metrics["time_to_first_token"].source is Source.ESTIMATED
        assert metrics["time_to_first_token"].value == 60 * MS

    def test_the_callers_own_work_between_chunks_remains_consumer(self) -> None:
        """The loop was busy with this call; the read after it returned at once."""
        reads = reads_in_ms((60, 100, ChunkKind.VISIBLE), (140, 140, ChunkKind.VISIBLE))
        seen = _stream((105, 140), reads=reads, done_ns=140 * MS)
        assert _totals(seen)["consumer"] == 40
        assert _EVENT_LOOP not in _totals(seen)

    def test_the_end_of_a_stream_can_be_delayed(self) -> None:
        """Its read is a read like any other."""
        assert _segments(_stream((142, 145)))[-2:] == [
            ("stream_close", 140, 142, "measured"),
            ("event_loop", 142, 145, "measured"),
        ]


def _reported(**times: int) -> tuple[ReportedTimings, ...]:
    """Return one report of the given times, in milliseconds."""
    durations = {f"{name}_ns": ms * MS for name, ms in times.items()}
    return (ReportedTimings("any")._replace(**durations),)


class TestEvidence:
    """A server may have worked during a block."""

    def test_what_the_server_reports_takes_its_time_from_the_block(self) -> None:
        """Prefill of 100 ms, a block of 120 ms, and a wait of 130 ms in all."""
        reads = reads_in_ms((140, 140, ChunkKind.VISIBLE), (140, 150, ChunkKind.VISIBLE))
        seen = _stream(
            (20, 140),
            attempts=[attempt_in_ms(1, pool_acquired=2, connected=8, sent=10, headers=140)],
            returned_ns=140 * MS,
            reads=reads,
            done_ns=150 * MS,
            reported=_reported(prefill=100),
        )
        assert _segments(seen)[4:] == [
            ("prefill", 10, 110, "server_reported"),
            ("event_loop", 110, 140, "measured"),
            ("decode", 140, 150, "measured"),
        ]
        assert call_timeline(seen).rejected == ()

    def test_what_fits_before_the_block_stays_there(self) -> None:
        """The report needs no time of the block."""
        seen = _call((60, 100), reported=_reported(prefill=20, total=40))
        assert _totals(seen)["event_loop"] == 40
        assert _totals(seen)["prefill"] == 20

    def test_a_total_takes_its_time_from_the_block_too(self) -> None:
        """A response that is not streamed, whose server reports 80 ms in all."""
        seen = _call((20, 100), reported=_reported(total=80))
        assert _totals(seen)["server_wait"] == 80
        assert _totals(seen)["event_loop"] == 10

    def test_a_decode_takes_its_time_from_a_block_between_tokens(self) -> None:
        """The reported generation is longer than the time in which the loop ran."""
        seen = _stream((105, 121), reported=_reported(queue=0, prefill=80, decode=35))
        assert _totals(seen)["decode"] == 35
        assert _totals(seen)["event_loop"] == 5

    def test_a_block_while_sending_leaves_the_server_its_time(self) -> None:
        """The request was out before the loop could stamp it, so the server had begun."""
        reads = reads_in_ms((101, 101, ChunkKind.VISIBLE), (101, 120, ChunkKind.VISIBLE))
        seen = _stream(
            (9, 100),
            attempts=[attempt_in_ms(1, pool_acquired=2, connected=8, sent=100, headers=101)],
            returned_ns=101 * MS,
            reads=reads,
            done_ns=120 * MS,
            reported=_reported(prefill=60),
        )
        assert _segments(seen)[3:] == [
            ("send", 8, 9, "measured"),
            ("event_loop", 9, 41, "measured"),
            ("prefill", 41, 101, "server_reported"),
            ("decode", 101, 120, "measured"),
        ]

    def test_impossible_evidence_is_rejected_as_without_a_block(self) -> None:
        """It does not fit into the time that passed."""
        seen = _call((60, 100), reported=_reported(prefill=500))
        assert call_timeline(seen).rejected == ("any",)
        assert _totals(seen)["event_loop"] == 40


_QUARTER_MS = MS // 4


@st.composite
def _any_blocks(draw: st.DrawFn) -> list[tuple[int, int]]:
    edges = draw(st.lists(st.integers(-50, 2_000), max_size=8, unique=True))
    edges.sort()
    return [
        (begin * _QUARTER_MS, end * _QUARTER_MS)
        for begin, end in zip(edges[::2], edges[1::2], strict=False)
    ]


@given(seen=any_observation(_QUARTER_MS), blocks=_any_blocks())
def test_segments_tile_the_duration_with_any_blocks(
    seen: CallObservation, blocks: list[tuple[int, int]]
) -> None:
    """No gap, no overlap, no lost nanosecond; blocks change no duration, mark or value."""
    without, timeline = call_timeline(seen), call_timeline(replace(seen, blocks=blocks))
    edge = 0
    for segment in timeline.segments:
        assert segment.start_ns == edge
        assert segment.duration_ns > 0 or segment.source is not Source.MEASURED
        edge = segment.end_ns
    assert edge == timeline.duration_ns == without.duration_ns
    assert timeline.marks == without.marks
    assert timeline.rejected == without.rejected
    assert timeline.metrics["duration"] == without.metrics["duration"]


@given(seen=any_observation(_QUARTER_MS))
def test_blocks_that_hide_no_instant_change_nothing(seen: CallObservation) -> None:
    """The result equals that of a call without blocks."""
    blocks = [(-9_000 * MS, -8_000 * MS), (8_000 * MS, 9_000 * MS)]
    assert call_timeline(replace(seen, blocks=blocks)) == call_timeline(seen)
