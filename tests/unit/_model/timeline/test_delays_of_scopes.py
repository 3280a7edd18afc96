"""Blocks of the event loop are separated from a request's and a stage's own time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._base.nanoseconds import NS_PER_MS as MS
from latspan._model.segments import Segment, Source
from latspan._model.timeline import Activity, ScopeTimeline, scope_timeline
from support.activities import call, request, stage


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
    other_ns = None if other is None else other * MS
    result = scope_timeline(
        stage("retrieve", 0, 100 * MS, done_other_ns=other_ns), blocks=[(20 * MS, 101 * MS)]
    )

    assert _ms(result.timeline.segments) == _ms(result.own) == expected


def test_a_block_before_the_end_of_a_wait_delays_nothing() -> None:
    """The loop was idle again when the awaited instant came."""
    result = scope_timeline(
        stage("retrieve", 0, 100 * MS, done_other_ns=99 * MS), blocks=[(20 * MS, 60 * MS)]
    )

    assert _ms(result.timeline.segments) == [("retrieve", 100)]


def test_less_than_a_millisecond_is_not_separated() -> None:
    result = scope_timeline(
        stage("retrieve", 0, 100 * MS, done_other_ns=100 * MS), blocks=[(99 * MS + 1, 101 * MS)]
    )

    assert _ms(result.timeline.segments) == [("retrieve", 100)]


def test_the_delays_of_own_time_of_stages_and_of_calls_are_those_of_the_request() -> None:
    """Those of a call are as the call found them."""
    result = scope_timeline(
        request(
            400 * MS,
            stage("retrieve", 10 * MS, 100 * MS, done_other_ns=100 * MS),
            call(
                200 * MS,
                300 * MS,
                Segment("send", 0, 40 * MS),
                Segment("event_loop", 40 * MS, 100 * MS),
                start_other_ns=200 * MS,
            ),
            done_other_ns=400 * MS,
        ),
        blocks=[(50 * MS, 101 * MS), (150 * MS, 201 * MS), (350 * MS, 401 * MS)],
    )

    assert _ms(result.timeline.segments) == [
        ("application", 10),
        ("retrieve", 40),
        ("event_loop", 50),
        ("application", 50),
        ("event_loop", 50),
        ("send", 40),
        ("event_loop", 60),
        ("application", 50),
        ("event_loop", 50),
    ]
    assert {segment.source for segment in result.timeline.segments} == {Source.MEASURED}
    assert result.segment_steps == (0, 1, 1, 0, 0, 2, 2, 0, 0)


_instants = st.integers(-20, 200).map(lambda instant: instant * MS)
_others = st.none() | _instants
_segments = st.sampled_from([(), (Segment("queue", 0, 30 * MS), Segment("decode", 30 * MS, MS))])


@st.composite
def _activities(draw: st.DrawFn) -> Activity:
    start_ns, done_ns, other_ns = draw(_instants), draw(_instants), draw(_others)
    if draw(st.booleans()):
        return call(start_ns, done_ns, *draw(_segments), start_other_ns=other_ns)
    name = draw(st.sampled_from(["retrieve", "event_loop", "call"]))
    return stage(name, start_ns, done_ns, start_other_ns=other_ns, done_other_ns=draw(_others))


_blocks = st.lists(_instants, max_size=8, unique=True).map(
    lambda edges: list(zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False))
)


@given(
    done_ns=_instants, inside=st.lists(_activities(), max_size=6), blocks=_blocks, other_ns=_others
)
def test_segments_tile_the_duration_with_any_blocks(
    done_ns: int,
    inside: list[Activity],
    blocks: list[tuple[int, int]],
    other_ns: int | None,
) -> None:
    """No gap and no overlap, and each step has as much time as without blocks."""
    root = request(done_ns, *inside, done_other_ns=other_ns)
    plain = scope_timeline(root)
    result = scope_timeline(root, blocks=blocks)

    edge_ns = 0
    for segment in result.timeline.segments:
        assert segment.start_ns == edge_ns <= segment.end_ns
        edge_ns = segment.end_ns
    assert edge_ns == result.timeline.duration_ns == max(0, done_ns)
    assert _by_step(result) == _by_step(plain)


def _by_step(result: ScopeTimeline) -> Counter[int]:
    spent = Counter[int]()
    for segment, step in zip(result.timeline.segments, result.segment_steps, strict=True):
        spent[step] += segment.duration_ns
    return +spent


def test_a_stage_whose_time_is_all_that_of_the_loop_has_a_value() -> None:
    """It ran, so that its own time of 0 ns is known, in its request too."""
    retrieve = stage("retrieve", 0, 100 * MS, done_other_ns=100 * MS)
    of_stage = scope_timeline(retrieve, blocks=[(0, 101 * MS)])
    of_request = scope_timeline(request(100 * MS, retrieve), blocks=[(0, 101 * MS)])

    assert _ms(of_stage.own) == [("retrieve", 0), ("event_loop", 100)]
    assert _ms(of_request.timeline.segments) == [("retrieve", 0), ("event_loop", 100)]
