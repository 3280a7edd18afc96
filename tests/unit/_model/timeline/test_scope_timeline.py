"""The timeline of a unit of work divides its time between calls, stages and the application."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from latspan._model.segments import Segment, Source
from latspan._model.timeline import ChildInterval, ScopeTimeline, scope_timeline


def _names(work: ScopeTimeline) -> list[tuple[str, int]]:
    return [(segment.name, segment.duration_ns) for segment in work.timeline.segments]


def _own(work: ScopeTimeline) -> list[tuple[str, int]]:
    return [(segment.name, segment.duration_ns) for segment in work.own]


def _call(start: int, done: int, *segments: Segment) -> ChildInterval:
    return ChildInterval("chat m", start, done, segments or (Segment("decode", 0, done - start),))


def test_one_call_divides_the_applications_time_in_two() -> None:
    """``prepare`` is before the call, ``postprocess`` after it."""
    timeline = scope_timeline(
        0, 100, calls=[_call(30, 80, Segment("queue", 0, 20), Segment("decode", 20, 50))]
    )
    assert _names(timeline) == [
        ("prepare", 30),
        ("queue", 20),
        ("decode", 30),
        ("postprocess", 20),
    ]


def test_only_the_last_call_shows_its_segments() -> None:
    """Earlier calls are one segment each; the user waited for the last one."""
    timeline = scope_timeline(0, 100, calls=[_call(10, 30), _call(40, 90)])
    assert _names(timeline) == [
        ("prepare", 10),
        ("call", 20),
        ("prepare", 10),
        ("decode", 50),
        ("postprocess", 10),
    ]


def test_overlapping_calls_are_counted_once() -> None:
    """The union of concurrent calls is counted, and the last call's own segments have priority."""
    timeline = scope_timeline(0, 100, calls=[_call(10, 95), _call(20, 60), _call(30, 80)])
    assert _names(timeline) == [
        ("prepare", 10),
        ("call", 20),
        ("decode", 50),
        ("call", 15),
        ("postprocess", 5),
    ]


def test_stages_take_time_of_the_application_but_not_of_calls() -> None:
    """The innermost stage has the time; inside a call, the call has it."""
    timeline = scope_timeline(
        0,
        100,
        calls=[_call(50, 90)],
        stages=[ChildInterval("retrieve", 10, 60), ChildInterval("rerank", 20, 30)],
    )
    assert _names(timeline) == [
        ("prepare", 10),
        ("retrieve", 10),
        ("rerank", 10),
        ("retrieve", 20),
        ("decode", 40),
        ("postprocess", 10),
    ]


def test_the_time_of_a_request_without_a_call_is_unattributed() -> None:
    """No measurement explains it."""
    timeline = scope_timeline(0, 100, stages=[ChildInterval("retrieve", 10, 60)])
    assert _names(timeline) == [("unattributed", 10), ("retrieve", 50), ("unattributed", 40)]
    assert timeline.timeline.segments[0].source is Source.UNKNOWN


def test_a_stage_has_its_own_time_under_its_own_name() -> None:
    """Calls and stages inside it keep their own names."""
    timeline = scope_timeline(
        0,
        100,
        calls=[_call(50, 90)],
        stages=[ChildInterval("rerank", 20, 30)],
        own_name="retrieve",
    )
    assert _names(timeline) == [
        ("retrieve", 20),
        ("rerank", 10),
        ("retrieve", 20),
        ("decode", 40),
        ("retrieve", 10),
    ]


def test_a_request_reports_only_time_outside_its_calls_and_stages() -> None:
    """A call reports its own ``prepare``, although the request has a segment of the same name."""
    timeline = scope_timeline(
        0,
        100,
        calls=[
            _call(20, 30),
            _call(40, 80, Segment("prepare", 0, 5), Segment("decode", 5, 40)),
        ],
        stages=[ChildInterval("retrieve", 0, 10)],
    )
    assert _names(timeline) == [
        ("retrieve", 10),
        ("prepare", 10),
        ("call", 10),
        ("prepare", 10),
        ("prepare", 5),
        ("decode", 35),
        ("postprocess", 20),
    ]
    assert _own(timeline) == [
        ("prepare", 10),
        ("call", 10),
        ("prepare", 10),
        ("postprocess", 20),
    ]


def test_a_stage_reports_only_its_own_time() -> None:
    """Calls and stages inside it report their own."""
    timeline = scope_timeline(
        0,
        100,
        calls=[_call(50, 90), _call(10, 15)],
        stages=[ChildInterval("rerank", 20, 30)],
        own_name="retrieve",
    )
    assert {name for name, _ in _own(timeline)} == {"retrieve"}
    assert sum(length for _, length in _own(timeline)) == 100 - 40 - 5 - 10


def test_a_stage_keeps_its_own_time_next_to_an_inner_stage_of_the_same_name() -> None:
    """The inner stage reports the time assigned to it; the outer one reports the rest."""
    timeline = scope_timeline(
        0, 100, stages=[ChildInterval("retrieve", 20, 50)], own_name="retrieve"
    )
    assert _names(timeline) == [("retrieve", 20), ("retrieve", 30), ("retrieve", 50)]
    assert _own(timeline) == [("retrieve", 20), ("retrieve", 50)]


def test_a_request_reports_its_time_next_to_stages_with_segment_names() -> None:
    """Stages named ``prepare``, ``call`` or ``postprocess`` do not take time away from it."""
    timeline = scope_timeline(
        0,
        100,
        calls=[_call(20, 30), _call(40, 80)],
        stages=[
            ChildInterval("prepare", 5, 15),
            ChildInterval("call", 32, 36),
            ChildInterval("postprocess", 85, 90),
        ],
    )
    assert sum(length for _, length in _names(timeline)) == 100
    assert _own(timeline) == [
        ("prepare", 5),
        ("prepare", 5),
        ("call", 10),
        ("prepare", 2),
        ("prepare", 4),
        ("postprocess", 5),
        ("postprocess", 10),
    ]


def test_a_stage_named_call_reports_only_its_own_time() -> None:
    """Calls inside it report their own."""
    timeline = scope_timeline(0, 100, calls=[_call(20, 30), _call(40, 80)], own_name="call")
    assert _own(timeline) == [("call", 20), ("call", 10), ("call", 20)]


def test_adjacent_stages_of_one_name_are_one_interval() -> None:
    """There is no time of the request between them."""
    timeline = scope_timeline(
        0, 100, stages=[ChildInterval("retrieve", 0, 40), ChildInterval("retrieve", 40, 70)]
    )
    assert _names(timeline) == [("retrieve", 70), ("unattributed", 30)]
    assert _own(timeline) == [("unattributed", 30)]


def test_the_inner_of_two_stages_that_start_together_has_the_time() -> None:
    """The clock may not advance between two starts; the later one is the inner stage."""
    timeline = scope_timeline(
        0, 100, stages=[ChildInterval("retrieve", 0, 60), ChildInterval("rerank", 0, 20)]
    )
    assert _names(timeline) == [("rerank", 20), ("retrieve", 40), ("unattributed", 40)]


def test_a_call_that_outlives_its_request_is_cut_at_the_requests_end() -> None:
    """Its own segments are not known yet."""
    timeline = scope_timeline(0, 100, calls=[ChildInterval("chat m", 40, 100)])
    assert _names(timeline) == [("prepare", 40), ("call", 60)]


def test_the_earliest_visible_token_of_any_call_counts_for_the_request() -> None:
    """The user saw it first, whichever call it came from."""
    early = ChildInterval("chat m", 10, 30, first_visible_ns=25)
    late = ChildInterval(
        "chat m", 40, 90, first_visible_ns=70, first_visible_source=Source.ESTIMATED
    )
    metric = scope_timeline(5, 100, calls=[late, early]).timeline.metrics[
        "time_to_first_visible_token"
    ]
    assert metric.value == 20
    assert metric.source is Source.MEASURED


_instants = st.integers(-20, 200)
_intervals = st.builds(
    # Of a named tuple itself, Hypothesis would also vary the fields with defaults.
    partial(ChildInterval),
    name=st.sampled_from(["retrieve", "prepare", "call", "safety"]),
    start_ns=_instants,
    done_ns=_instants,
    segments=st.sampled_from([(), (Segment("queue", 0, 30), Segment("decode", 30, 400))]),
)


_any_unit = given(
    start=_instants,
    done=_instants,
    calls=st.lists(_intervals, max_size=4),
    stages=st.lists(_intervals, max_size=4),
    own_name=st.none() | st.just("safety"),
)
"""A request or a stage with arbitrary calls and stages inside it."""


@_any_unit
def test_segments_tile_the_duration_for_any_contents(
    start: int,
    done: int,
    calls: list[ChildInterval],
    stages: list[ChildInterval],
    own_name: str | None,
) -> None:
    """In any order and overlap: no gap, no overlap in the result, no lost nanosecond."""
    timeline = scope_timeline(start, done, calls=calls, stages=stages, own_name=own_name).timeline
    edge = 0
    for segment in timeline.segments:
        assert segment.start_ns == edge
        assert segment.end_ns > segment.start_ns
        edge = segment.end_ns
    assert edge == timeline.duration_ns == max(0, done - start)


@_any_unit
def test_own_time_is_the_time_not_covered_by_calls_or_stages(
    start: int,
    done: int,
    calls: list[ChildInterval],
    stages: list[ChildInterval],
    own_name: str | None,
) -> None:
    """With any names; checked nanosecond by nanosecond."""
    work = scope_timeline(start, done, calls=calls, stages=stages, own_name=own_name)

    def covered(instant_ns: int, intervals: list[ChildInterval]) -> bool:
        return any(each.start_ns <= instant_ns < each.done_ns for each in intervals)

    uncovered = sum(not covered(each, [*calls, *stages]) for each in range(start, done))
    mine = [length for name, length in _own(work) if name != "call"]
    assert sum(mine) == uncovered
