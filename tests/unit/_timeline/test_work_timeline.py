"""The timeline of a unit of work: whose time is whose."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from latspan._segments import Segment, Source
from latspan._timeline import Interval, WorkTimeline, work_timeline


def _names(work: WorkTimeline) -> list[tuple[str, int]]:
    return [(segment.name, segment.duration_ns) for segment in work.timeline.segments]


def _own(work: WorkTimeline) -> list[tuple[str, int]]:
    return [(segment.name, segment.duration_ns) for segment in work.own]


def _call(start: int, done: int, *segments: Segment) -> Interval:
    return Interval("chat m", start, done, segments or (Segment("decode", 0, done - start),))


def test_one_call_splits_the_applications_time_in_two() -> None:
    """Before the call it prepared, after it it processed."""
    timeline = work_timeline(
        0, 100, calls=[_call(30, 80, Segment("queue", 0, 20), Segment("decode", 20, 50))]
    )
    assert _names(timeline) == [
        ("prepare", 30),
        ("queue", 20),
        ("decode", 30),
        ("postprocess", 20),
    ]


def test_earlier_calls_are_one_segment_and_only_the_last_is_opened_up() -> None:
    """A chain of calls reads as calls, and the one the user waited for last in full."""
    timeline = work_timeline(0, 100, calls=[_call(10, 30), _call(40, 90)])
    assert _names(timeline) == [
        ("prepare", 10),
        ("call", 20),
        ("prepare", 10),
        ("decode", 50),
        ("postprocess", 10),
    ]


def test_overlapping_calls_are_counted_once() -> None:
    """Of calls that ran at the same time the union counts, and the last one's own segments win."""
    timeline = work_timeline(0, 100, calls=[_call(10, 95), _call(20, 60), _call(30, 80)])
    assert _names(timeline) == [
        ("prepare", 10),
        ("call", 20),
        ("decode", 50),
        ("call", 15),
        ("postprocess", 5),
    ]


def test_stages_take_their_part_of_the_applications_time_and_none_of_a_calls() -> None:
    """The innermost stage has it; inside a call the call does."""
    timeline = work_timeline(
        0,
        100,
        calls=[_call(50, 90)],
        stages=[Interval("retrieve", 10, 60), Interval("rerank", 20, 30)],
    )
    assert _names(timeline) == [
        ("prepare", 10),
        ("retrieve", 10),
        ("rerank", 10),
        ("retrieve", 20),
        ("decode", 40),
        ("postprocess", 10),
    ]


def test_a_request_without_a_call_says_that_its_time_is_unattributed() -> None:
    """Nothing explains it, so nothing is claimed."""
    timeline = work_timeline(0, 100, stages=[Interval("retrieve", 10, 60)])
    assert _names(timeline) == [("unattributed", 10), ("retrieve", 50), ("unattributed", 40)]
    assert timeline.timeline.segments[0].source is Source.UNKNOWN


def test_a_stage_has_its_own_time_under_its_own_name() -> None:
    """Calls and stages inside it keep theirs."""
    timeline = work_timeline(
        0,
        100,
        calls=[_call(50, 90)],
        stages=[Interval("rerank", 20, 30)],
        own_name="retrieve",
    )
    assert _names(timeline) == [
        ("retrieve", 20),
        ("rerank", 10),
        ("retrieve", 20),
        ("decode", 40),
        ("retrieve", 10),
    ]


def test_a_request_reports_what_its_calls_and_stages_do_not() -> None:
    """Its last call's own preparation is the call's to report, though both go by one name."""
    timeline = work_timeline(
        0,
        100,
        calls=[
            _call(20, 30),
            _call(40, 80, Segment("prepare", 0, 5), Segment("decode", 5, 40)),
        ],
        stages=[Interval("retrieve", 0, 10)],
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


def test_a_stage_reports_its_own_time_alone() -> None:
    """Calls and stages inside it report theirs."""
    timeline = work_timeline(
        0,
        100,
        calls=[_call(50, 90), _call(10, 15)],
        stages=[Interval("rerank", 20, 30)],
        own_name="retrieve",
    )
    assert {name for name, _ in _own(timeline)} == {"retrieve"}
    assert sum(length for _, length in _own(timeline)) == 100 - 40 - 5 - 10


def test_a_stage_keeps_its_own_time_beside_a_stage_of_its_own_name() -> None:
    """What was laid for the inner one is the inner one's to report, the rest is not."""
    timeline = work_timeline(0, 100, stages=[Interval("retrieve", 20, 50)], own_name="retrieve")
    assert _names(timeline) == [("retrieve", 20), ("retrieve", 30), ("retrieve", 50)]
    assert _own(timeline) == [("retrieve", 20), ("retrieve", 50)]


def test_a_request_reports_its_time_beside_stages_named_like_it() -> None:
    """A stage may be called `prepare`, `call` or `postprocess`; that takes nothing away."""
    timeline = work_timeline(
        0,
        100,
        calls=[_call(20, 30), _call(40, 80)],
        stages=[
            Interval("prepare", 5, 15),
            Interval("call", 32, 36),
            Interval("postprocess", 85, 90),
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


def test_a_stage_named_call_reports_its_own_time_and_no_calls() -> None:
    """Its calls report theirs."""
    timeline = work_timeline(0, 100, calls=[_call(20, 30), _call(40, 80)], own_name="call")
    assert _own(timeline) == [("call", 20), ("call", 10), ("call", 20)]


def test_stages_that_follow_at_once_are_one_interval() -> None:
    """No time lies between them, so nothing of the request's own parts them."""
    timeline = work_timeline(
        0, 100, stages=[Interval("retrieve", 0, 40), Interval("retrieve", 40, 70)]
    )
    assert _names(timeline) == [("retrieve", 70), ("unattributed", 30)]
    assert _own(timeline) == [("unattributed", 30)]


def test_of_stages_that_began_at_once_the_inner_one_has_the_time() -> None:
    """The clock may not have moved between two openings; the later is the inner one."""
    timeline = work_timeline(
        0, 100, stages=[Interval("retrieve", 0, 60), Interval("rerank", 0, 20)]
    )
    assert _names(timeline) == [("rerank", 20), ("retrieve", 40), ("unattributed", 40)]


def test_a_call_that_outlives_its_request_counts_up_to_the_requests_end() -> None:
    """Its own segments are not known yet."""
    timeline = work_timeline(0, 100, calls=[Interval("chat m", 40, 100)])
    assert _names(timeline) == [("prepare", 40), ("call", 60)]


def test_the_first_visible_token_of_any_call_counts_for_the_request() -> None:
    """What the user saw first, whichever call it came from."""
    early = Interval("chat m", 10, 30, first_visible_ns=25)
    late = Interval("chat m", 40, 90, first_visible_ns=70, first_visible_source=Source.ESTIMATED)
    metric = work_timeline(5, 100, calls=[late, early]).timeline.metrics[
        "time_to_first_visible_token"
    ]
    assert metric.value == 20
    assert metric.source is Source.MEASURED


_instants = st.integers(-20, 200)
_intervals = st.builds(
    Interval,
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
"""A request or a stage, with anything inside it."""


@_any_unit
def test_segments_tile_the_duration_whatever_lies_inside(
    start: int,
    done: int,
    calls: list[Interval],
    stages: list[Interval],
    own_name: str | None,
) -> None:
    """In any order and overlap: no gap, no overlap, no nanosecond lost."""
    timeline = work_timeline(start, done, calls=calls, stages=stages, own_name=own_name).timeline
    edge = 0
    for segment in timeline.segments:
        assert segment.start_ns == edge
        assert segment.end_ns > segment.start_ns
        edge = segment.end_ns
    assert edge == timeline.duration_ns == max(0, done - start)


@_any_unit
def test_own_time_is_exactly_what_nothing_inside_covers(
    start: int,
    done: int,
    calls: list[Interval],
    stages: list[Interval],
    own_name: str | None,
) -> None:
    """Whatever the names: counted nanosecond by nanosecond, in every unit alike."""
    work = work_timeline(start, done, calls=calls, stages=stages, own_name=own_name)

    def covered(instant_ns: int, intervals: list[Interval]) -> bool:
        return any(each.start_ns <= instant_ns < each.done_ns for each in intervals)

    uncovered = sum(not covered(each, [*calls, *stages]) for each in range(start, done))
    mine = [length for name, length in _own(work) if name != "call"]
    assert sum(mine) == uncovered
