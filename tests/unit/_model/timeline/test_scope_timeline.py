"""The timeline of a request divides its time between its steps and the application."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._model.segments import Kind, Segment, Source, Step
from latspan._model.timeline import Activity, ScopeTimeline, scope_timeline
from support.activities import call, exchange, inner_request, request, stage


def names(result: ScopeTimeline) -> list[tuple[str, int]]:
    return [(segment.name, segment.duration_ns) for segment in result.timeline.segments]


def own(result: ScopeTimeline) -> list[tuple[str, int]]:
    return [(segment.name, segment.duration_ns) for segment in result.own]


def test_every_call_shows_its_segments() -> None:
    root = request(
        100,
        call(10, 30, Segment("queue", 0, 15), Segment("decode", 15, 20)),
        call(40, 90, Segment("prefill", 0, 10), Segment("decode", 10, 50)),
    )

    assert names(scope_timeline(root)) == [
        ("application", 10),
        ("queue", 15),
        ("decode", 5),
        ("application", 10),
        ("prefill", 10),
        ("decode", 40),
        ("application", 10),
    ]


def test_every_segment_knows_its_step() -> None:
    result = scope_timeline(
        request(
            100,
            stage("search", 10, 40, call(20, 30)),
            exchange("example.org", 50, 60),
        )
    )

    assert result.steps == (
        Step("search", Kind.STAGE, 10, 40),
        Step("chat m", Kind.CALL, 20, 30, parent=1),
        Step("http example.org", Kind.HTTP, 50, 60),
    )
    assert names(result) == [
        ("application", 10),
        ("search", 10),
        ("decode", 10),
        ("search", 10),
        ("application", 10),
        ("http example.org", 10),
        ("application", 40),
    ]
    assert result.segment_steps == (0, 1, 2, 1, 0, 3, 0)


def test_the_time_of_the_application_is_before_between_and_after_the_steps() -> None:
    result = scope_timeline(request(100, call(10, 30), call(50, 90)))

    assert result.application_ns == (10, 20, 10)


def test_a_stage_that_was_not_waited_for_is_no_step_of_the_path() -> None:
    """The time before it is still that before the first step."""
    root = request(100, stage("prefetch", 5, 40), call(30, 90))

    result = scope_timeline(root)

    assert names(result)[:2] == [("application", 5), ("prefetch", 25)]
    unwaited = scope_timeline(request(100, call(30, 90), stage("prefetch", 35, 40)))
    assert unwaited.application_ns == (30, 0, 10)
    cut = scope_timeline(request(100, stage("prefetch", 5, 8, was_cut=True), call(3, 90)))
    assert cut.application_ns == (3, 0, 10)


def test_without_a_step_all_time_is_the_applications() -> None:
    result = scope_timeline(request(100))

    assert names(result) == [("application", 100)]
    assert result.application_ns is None
    assert result.segment_steps == (0,)


def test_the_own_time_of_an_inner_request_is_the_applications() -> None:
    result = scope_timeline(request(100, inner_request("agent", 10, 60, call(20, 50))))

    assert names(result) == [("application", 20), ("decode", 30), ("application", 50)]
    assert [step.name for step in result.steps] == ["chat m"]


def test_an_inner_request_that_outlives_its_stage_is_in_no_step_after_it() -> None:
    """A sub-agent that began in the stage that planned it, and was awaited after it."""
    agent = inner_request("agent", 1, 80, stage("search", 20, 60))
    result = scope_timeline(request(100, stage("plan", 0, 2, agent)))

    steps = zip(result.timeline.segments, result.segment_steps, strict=True)
    assert [(segment.name, segment.duration_ns, step) for segment, step in steps] == [
        ("plan", 1, 1),
        ("application", 19, 0),
        ("search", 40, 2),
        ("application", 40, 0),
    ]


def test_a_stage_has_its_own_time_under_its_own_name() -> None:
    result = scope_timeline(stage("retrieve", 0, 100, stage("rerank", 20, 30), call(50, 90)))

    assert names(result) == [
        ("retrieve", 20),
        ("rerank", 10),
        ("retrieve", 20),
        ("decode", 40),
        ("retrieve", 10),
    ]
    assert own(result) == [("retrieve", 20), ("retrieve", 20), ("retrieve", 10)]


def test_a_stage_keeps_its_own_time_next_to_an_inner_stage_of_the_same_name() -> None:
    result = scope_timeline(stage("retrieve", 0, 100, stage("retrieve", 20, 50)))

    assert names(result) == [("retrieve", 20), ("retrieve", 30), ("retrieve", 50)]
    assert own(result) == [("retrieve", 20), ("retrieve", 50)]


def test_a_call_that_is_open_at_the_end_of_a_cut_request_has_no_segments_yet() -> None:
    result = scope_timeline(request(100, call(40, None)), keeps_open=True)

    assert names(result) == [("application", 40), ("unattributed", 60)]
    assert result.timeline.segments[1].source is Source.UNKNOWN
    assert result.steps == (Step("chat m", Kind.CALL, 40, 100),)


def test_a_step_that_outlives_its_request_is_listed_without_an_end() -> None:
    result = scope_timeline(request(100, call(40, 101)))

    assert names(result) == [("application", 100)]
    assert result.steps == (Step("chat m", Kind.CALL, 40, None),)


def test_a_call_is_clipped_where_a_tool_began() -> None:
    """The tool began during the stream, and was awaited after it."""
    root = request(
        100, call(0, 60, Segment("queue", 0, 30), Segment("decode", 30, 60)), stage("tool", 40, 100)
    )

    assert names(scope_timeline(root)) == [("queue", 30), ("decode", 10), ("tool", 60)]


@pytest.mark.parametrize("was_cut", [False, True])
def test_a_stage_that_was_not_waited_for_has_a_value_of_zero(was_cut: bool) -> None:
    """Its time is known: the request waited 0 ns for it."""
    root = request(100, call(10, 90), stage("retrieve", 20, 40, was_cut=was_cut))

    assert names(scope_timeline(root)) == [
        ("application", 10),
        ("retrieve", 0),
        ("decode", 80),
        ("application", 10),
    ]


def test_adjacent_intervals_of_one_step_are_one_segment() -> None:
    """The stages of one name are two steps."""
    root = request(100, stage("retrieve", 0, 40), stage("retrieve", 40, 70))

    assert names(scope_timeline(root)) == [
        ("retrieve", 40),
        ("retrieve", 30),
        ("application", 30),
    ]


def test_the_earliest_visible_token_of_any_call_counts_for_the_request() -> None:
    root = request(
        100, call(10, 30, first_visible_ns=25), call(40, 90, first_visible_ns=70), start_ns=5
    )

    metric = scope_timeline(root).timeline.metrics["time_to_first_visible_token"]

    assert metric.value == 20
    assert metric.source is Source.MEASURED


instants = st.integers(-20, 200)


@st.composite
def activities(draw: st.DrawFn, depth: int = 2) -> Activity:
    """Draw a stage or a call with any instants, even outside those of the activity around it."""
    start_ns, done_ns = draw(instants), draw(st.none() | instants)
    was_cut = draw(st.booleans())
    if draw(st.booleans()):
        segments = draw(
            st.sampled_from([(), (Segment("queue", 0, 30), Segment("decode", 30, 400))])
        )
        return call(start_ns, done_ns, *segments, was_cut=was_cut)
    name = draw(st.sampled_from(["retrieve", "prepare", "application"]))
    inside = draw(st.lists(activities(depth - 1), max_size=3)) if depth else []
    return stage(name, start_ns, done_ns, *inside, was_cut=was_cut)


@given(instants, instants, st.lists(activities(), max_size=4), st.booleans(), st.booleans())
def test_segments_tile_the_duration_for_any_activities(
    start_ns: int, done_ns: int, inside: list[Activity], keeps_open: bool, is_stage: bool
) -> None:
    """In any order and overlap: no gap, no overlap, no lost nanosecond."""
    root = (
        stage("safety", start_ns, done_ns, *inside)
        if is_stage
        else request(done_ns, *inside, start_ns=start_ns)
    )

    result = scope_timeline(root, keeps_open=keeps_open)

    edge_ns = 0
    shown: set[str] = set()
    for segment, step in zip(result.timeline.segments, result.segment_steps, strict=True):
        assert segment.start_ns == edge_ns <= segment.end_ns
        # Only a stage without any time has an empty segment, and only one.
        assert segment.duration_ns or segment.name not in shown
        assert 0 <= step <= len(result.steps)
        shown.add(segment.name)
        edge_ns = segment.end_ns
    assert edge_ns == result.timeline.duration_ns == max(0, done_ns - start_ns)
    assert all(step.parent <= len(result.steps) for step in result.steps)
