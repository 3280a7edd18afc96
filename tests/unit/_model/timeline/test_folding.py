"""Folding keeps all sums, at any time at which it happens."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._model.segments import Segment, Source
from latspan._model.timeline import KEPT_ONE_BY_ONE, Activity, ScopeTimeline, fold, scope_timeline
from support.activities import call, request, stage

DONE_NS = 100
Sums = Counter[tuple[str, Source, str, str]]


def sums(result: ScopeTimeline) -> Sums:
    """Return the time per segment, step and enclosing step."""
    found = Sums()
    names = ["", *(step.name for step in result.steps)]
    parents = ["", *(names[step.parent] for step in result.steps)]
    for segment, step in zip(result.timeline.segments, result.segment_steps, strict=True):
        found[segment.name, segment.source, names[step], parents[step]] += segment.duration_ns
    return +found


@st.composite
def activities(draw: st.DrawFn, instants: list[int], depth: int = 2) -> list[Activity]:
    """Draw activities between these instants, none inside another but by its place in the tree."""
    found: list[Activity] = []
    at = 0
    while at + 1 < len(instants):
        width = draw(st.integers(1, max(1, (len(instants) - at) // 2)))
        until = min(at + 2 * width - 1, len(instants) - 1)
        start_ns, done_ns, inner = instants[at], instants[until], instants[at + 1 : until]
        if draw(st.booleans()) or not depth:
            segments = (Segment("queue", 0, 1), Segment("decode", 1, done_ns - start_ns))
            found.append(call(start_ns, done_ns, *segments, first_visible_ns=done_ns))
        else:
            name = draw(st.sampled_from(["retrieve", "rerank"]))
            source = draw(st.sampled_from([Source.MEASURED, Source.ESTIMATED]))
            inside = draw(activities(inner, depth - 1))
            found.append(stage(name, start_ns, done_ns, *inside, source=source))
        at = until + 1
    return found


@st.composite
def contents(draw: st.DrawFn) -> list[Activity]:
    """Draw two lists of activities that overlap each other."""
    lists: list[Activity] = []
    for _ in range(draw(st.integers(1, 2))):
        drawn = draw(st.lists(st.integers(1, DONE_NS - 1), max_size=12, unique=True))
        lists += draw(activities(sorted(drawn)))
    return sorted(lists, key=lambda activity: activity.start_ns)


@given(contents(), st.lists(st.integers(1, DONE_NS), max_size=4))
def test_every_sum_is_exact_after_folding(inside: list[Activity], folds: list[int]) -> None:
    """Of each segment in each step, and the number of the activities."""
    whole = scope_timeline(request(DONE_NS, *inside))
    root = request(DONE_NS)
    before_ns = 0
    for now_ns in sorted({*folds, DONE_NS}):
        root.children += [each for each in inside if before_ns <= each.start_ns < now_ns]
        _fold_at(root, now_ns)
        before_ns = now_ns

    after = scope_timeline(root)

    assert sums(after) == sums(whole)
    assert after.timeline.metrics == whole.timeline.metrics
    assert sum(step.merged for step in after.steps) == len(whole.steps)


def _fold_at(root: Activity, now_ns: int) -> None:
    """Fold what has ended by now; what has not is open meanwhile."""
    ends = {id(each): each.done_ns for each in _known(root)}
    for each in _known(root):
        if each.done_ns is not None and each.done_ns > now_ns:
            each.done_ns = None
    still_open = [each for each in _known(root) if each.done_ns is None]
    fold(root)
    for each in still_open:
        each.done_ns = ends[id(each)]


def _known(activity: Activity) -> list[Activity]:
    inside = [each for each in activity.children if isinstance(each, Activity)]
    return [*inside, *(each for child in inside for each in _known(child))]


def test_a_thousand_calls_become_one() -> None:
    root = request(
        10_000,
        *(
            call(at, at + 6, Segment("decode", 0, 6), first_visible_ns=at + 2)
            for at in range(0, 10_000, 10)
        ),
    )

    assert fold(root) == 1

    result = scope_timeline(root)
    assert [(step.name, step.merged) for step in result.steps] == [("chat m", 1_000)]
    assert [(segment.name, segment.duration_ns) for segment in result.timeline.segments] == [
        ("decode", 6_000),
        ("application", 4_000),
    ]
    assert result.timeline.metrics["time_to_first_visible_token"].value == 2
    assert result.inferred_ns == 0


def test_calls_in_tools_are_folded_in_their_tools() -> None:
    root = request(
        100, *(stage("search", at, at + 8, call(at + 2, at + 5)) for at in range(0, 100, 10))
    )

    fold(root)

    result = scope_timeline(root)
    assert [(step.name, step.parent, step.merged) for step in result.steps] == [
        ("search", 0, 10),
        ("chat m", 1, 10),
    ]
    assert sums(result) == sums(
        scope_timeline(
            request(
                100,
                *(stage("search", at, at + 8, call(at + 2, at + 5)) for at in range(0, 100, 10)),
            )
        )
    )


@pytest.mark.parametrize("count", [KEPT_ONE_BY_ONE - 2, KEPT_ONE_BY_ONE + 2])
def test_calls_beside_an_open_stage_are_folded_only_if_they_are_many(count: int) -> None:
    """Whether the request waited for them depends on the end of the stage."""
    beside = stage("background", 0, None)
    root = request(10 * count, beside, *(call(10 * at, 10 * at + 6) for at in range(count)))

    left = fold(root)

    result = scope_timeline(root)
    is_folded = count > KEPT_ONE_BY_ONE
    assert left == (2 if is_folded else 1 + count)
    assert (result.inferred_ns > 0) == is_folded
    assert sums(result)["decode", Source.MEASURED, "chat m", ""] == 6 * count


def test_the_inferred_time_is_that_of_single_activities() -> None:
    """Two tools at the same time, again and again."""
    root = request(0)
    for at in range(KEPT_ONE_BY_ONE):
        root.children += [stage(name, 11 * at, 11 * at + 10) for name in ("one", "two")]
        if len(root.children) > KEPT_ONE_BY_ONE:
            fold(root)
    root.done_ns = 11 * KEPT_ONE_BY_ONE

    assert scope_timeline(root).inferred_ns == 10 * KEPT_ONE_BY_ONE


def test_activities_nested_deeper_than_the_stack_are_folded() -> None:
    root = request(5_000)
    node = root
    for depth in range(1, 2_000):
        inner = stage(f"stage {depth}", depth, 5_000 - depth)
        node.children.append(inner)
        node = inner

    fold(root)

    assert scope_timeline(root).merged == 1_999
