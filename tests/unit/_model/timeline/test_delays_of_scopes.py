"""Blocks of the event loop are separated from a request's and a stage's own time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._base.nanoseconds import NS_PER_MS as MS
from latspan._model.segments import Segment, Source
from latspan._model.timeline import ChildInterval, scope_timeline

_Blocks = list[tuple[int, int]]


def _stage(
    name: str, start: int, done: int, *, start_other: int | None = None, other: int | None = None
) -> ChildInterval:
    """Return a stage; instants in milliseconds."""
    return ChildInterval(
        name,
        start * MS,
        done * MS,
        start_other_ns=None if start_other is None else start_other * MS,
        done_other_ns=None if other is None else other * MS,
    )


def _ms(segments: Sequence[Segment]) -> list[tuple[str, int]]:
    return [(segment.name, segment.duration_ns // MS) for segment in segments]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (100, [("retrieve", 20), ("event_loop", 80)]),
        (90, [("retrieve", 20), ("event_loop", 70), ("retrieve", 10)]),
        (20, [("retrieve", 100)]),
        (None, [("retrieve", 100)]),
    ],
    ids=["waited to the end", "computed after it", "computed all the time", "unknown"],
)
def test_a_block_delays_the_end_of_a_stage_only_if_something_else_ran(
    other: int | None, expected: list[tuple[str, int]]
) -> None:
    """The loop was blocked from 20 to 101 ms; the stage ends at 100 ms."""
    result = scope_timeline(
        0,
        100 * MS,
        own_name="retrieve",
        blocks=[(20 * MS, 101 * MS)],
        done_other_ns=None if other is None else other * MS,
    )

    assert _ms(result.timeline.segments) == _ms(result.own) == expected


def test_a_block_before_the_end_of_a_wait_delays_nothing() -> None:
    """The loop was idle again when the awaited instant came."""
    result = scope_timeline(
        0, 100 * MS, own_name="retrieve", blocks=[(20 * MS, 60 * MS)], done_other_ns=99 * MS
    )

    assert _ms(result.timeline.segments) == [("retrieve", 100)]


def test_less_than_a_millisecond_is_not_separated() -> None:
    result = scope_timeline(
        0, 100 * MS, own_name="retrieve", blocks=[(99 * MS + 1, 101 * MS)], done_other_ns=100 * MS
    )

    assert _ms(result.timeline.segments) == [("retrieve", 100)]


def test_a_request_reports_only_the_delays_of_its_own_time() -> None:
    """Those of a stage are recorded with the stage, those of a call with the call."""
    call = ChildInterval(
        "chat m",
        200 * MS,
        300 * MS,
        (Segment("send", 0, 40 * MS), Segment("event_loop", 40 * MS, 100 * MS)),
        start_other_ns=200 * MS,
    )
    result = scope_timeline(
        0,
        400 * MS,
        calls=[call],
        stages=[_stage("retrieve", 10, 100, other=100)],
        blocks=[(50 * MS, 101 * MS), (150 * MS, 201 * MS), (350 * MS, 401 * MS)],
        done_other_ns=400 * MS,
    )

    assert _ms(result.timeline.segments) == [
        ("prepare", 10),
        ("retrieve", 40),
        ("event_loop", 50),
        ("prepare", 50),
        ("event_loop", 50),
        ("send", 40),
        ("event_loop", 60),
        ("postprocess", 50),
        ("event_loop", 50),
    ]
    assert _ms(result.own) == [
        ("prepare", 10),
        ("prepare", 50),
        ("event_loop", 50),
        ("postprocess", 50),
        ("event_loop", 50),
    ]
    assert {segment.source for segment in result.own} == {Source.MEASURED}


def test_earlier_calls_stay_one_segment() -> None:
    """Their own records show by which time they were delayed."""
    calls = [
        ChildInterval("chat m", 0, 100 * MS, done_other_ns=100 * MS),
        ChildInterval("chat m", 100 * MS, 200 * MS, (Segment("decode", 0, 100 * MS),)),
    ]
    result = scope_timeline(0, 200 * MS, calls=calls, blocks=[(20 * MS, 101 * MS)])

    assert _ms(result.timeline.segments) == [("call", 100), ("decode", 100)]


_instants = st.integers(-20, 200).map(lambda instant: instant * MS)
_others = st.none() | _instants
_children = st.builds(
    # Of a named tuple itself, Hypothesis would also vary the fields with defaults.
    partial(ChildInterval),
    name=st.sampled_from(["retrieve", "event_loop", "call"]),
    start_ns=_instants,
    done_ns=_instants,
    segments=st.sampled_from([(), (Segment("queue", 0, 30 * MS), Segment("decode", 30 * MS, MS))]),
    start_other_ns=_others,
    done_other_ns=_others,
)
_blocks = st.lists(_instants, max_size=8, unique=True).map(
    lambda edges: list(zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False))
)


@given(
    done=_instants,
    calls=st.lists(_children, max_size=4),
    stages=st.lists(_children, max_size=4),
    own_name=st.none() | st.just("safety"),
    blocks=_blocks,
    other=_others,
)
def test_segments_tile_the_duration_with_any_blocks(
    done: int,
    calls: list[ChildInterval],
    stages: list[ChildInterval],
    own_name: str | None,
    blocks: _Blocks,
    other: int | None,
) -> None:
    """No gap and no overlap, and the scope reports as much as without blocks."""
    plain = scope_timeline(0, done, calls=calls, stages=stages, own_name=own_name)
    result = scope_timeline(
        0,
        done,
        calls=calls,
        stages=stages,
        own_name=own_name,
        blocks=blocks,
        done_other_ns=other,
    )

    edge = 0
    for segment in result.timeline.segments:
        assert segment.start_ns == edge
        assert segment.end_ns > segment.start_ns
        edge = segment.end_ns
    assert edge == result.timeline.duration_ns == max(0, done)
    assert sum(each.duration_ns for each in result.own) == sum(
        each.duration_ns for each in plain.own
    )


def test_a_stage_whose_time_is_all_that_of_the_loop_has_a_value() -> None:
    """It ran, so that its own time of 0 ns is known."""
    result = scope_timeline(
        0, 100 * MS, own_name="retrieve", blocks=[(0, 101 * MS)], done_other_ns=100 * MS
    )

    assert _ms(result.timeline.segments) == [("event_loop", 100)]
    assert _ms(result.own) == [("retrieve", 0), ("event_loop", 100)]
