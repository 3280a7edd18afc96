"""Merging calls and stages keeps all sums, at any time of the merge."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from latspan._model.segments import Segment, Source
from latspan._model.timeline import ChildInterval, ScopeTimeline, merged, scope_timeline

DONE_NS = 60


def sums(work: ScopeTimeline) -> tuple[Counter[tuple[str, Source]], Counter[tuple[str, Source]]]:
    """Return the time per segment, of the whole unit and of its own segments."""
    whole: Counter[tuple[str, Source]] = Counter()
    own: Counter[tuple[str, Source]] = Counter()
    for name, start_ns, end_ns, source in work.timeline.segments:
        whole[name, source] += end_ns - start_ns
    for name, start_ns, end_ns, source in work.own:
        own[name, source] += end_ns - start_ns
    return +whole, +own


@st.composite
def contents(draw: st.DrawFn) -> tuple[list[ChildInterval], list[ChildInterval]]:
    """Draw calls and stages with distinct instants, ordered by their start."""
    count = draw(st.integers(0, 8))
    instants = draw(
        st.lists(st.integers(1, DONE_NS - 1), min_size=2 * count, max_size=2 * count, unique=True)
    )
    calls: list[ChildInterval] = []
    stages: list[ChildInterval] = []
    for one, other in zip(instants[::2], instants[1::2], strict=True):
        start_ns, done_ns = min(one, other), max(one, other)
        name = draw(st.sampled_from(["call", "retrieve", "rerank", "prepare"]))
        if name == "call":
            segments = (Segment("queue", 0, 1), Segment("decode", 1, done_ns - start_ns))
            calls.append(
                ChildInterval("chat m", start_ns, done_ns, segments, first_visible_ns=done_ns - 1)
            )
        else:
            source = draw(st.sampled_from([Source.MEASURED, Source.ESTIMATED]))
            own = draw(st.booleans())
            stages.append(ChildInterval(name, start_ns, done_ns, source=source, own=own))
    return sorted(calls, key=_began), sorted(stages, key=_began)


def _began(interval: ChildInterval) -> int:
    return interval.start_ns


def merged_at(
    now_ns: int,
    held: tuple[list[ChildInterval], list[ChildInterval]],
    begun: tuple[list[ChildInterval], list[ChildInterval]],
) -> tuple[list[ChildInterval], list[ChildInterval]]:
    """Return a unit's intervals after a merge at ``now_ns``; ``begun`` are new since the last."""
    calls, stages = (
        [*before, *(each for each in since if each.start_ns < now_ns)]
        for before, since in zip(held, begun, strict=True)
    )
    open_calls = [each for each in calls if each.done_ns > now_ns]
    open_stages = [each for each in stages if each.done_ns > now_ns]
    merged_calls, merged_stages = merged(
        [each for each in calls if each.done_ns <= now_ns],
        [each for each in stages if each.done_ns <= now_ns],
        open_calls=open_calls,
        open_stages=open_stages,
    )
    return [*merged_calls, *open_calls], [*open_stages, *merged_stages]


@given(contents(), st.lists(st.integers(1, DONE_NS), max_size=4), st.sampled_from([None, "stage"]))
def test_every_sum_is_exact_after_merging(
    inside: tuple[list[ChildInterval], list[ChildInterval]], merges: list[int], own_name: str | None
) -> None:
    """Of the unit, of the segments that it reports itself, and of its stages alone."""
    calls, stages = inside
    held: tuple[list[ChildInterval], list[ChildInterval]] = ([], [])
    before_ns = 0
    for now_ns in [*sorted(merges), DONE_NS]:
        begun = tuple([each for each in some if each.start_ns >= before_ns] for some in inside)
        held = merged_at(now_ns, held, (begun[0], begun[1]))
        before_ns = now_ns

    whole = scope_timeline(0, DONE_NS, calls=calls, stages=stages, own_name=own_name)
    after = scope_timeline(0, DONE_NS, calls=held[0], stages=held[1], own_name=own_name)
    assert sums(after) == sums(whole)
    assert after.timeline.metrics == whole.timeline.metrics
    assert sums(scope_timeline(0, DONE_NS, stages=held[1])) == sums(
        scope_timeline(0, DONE_NS, stages=stages)
    )
    assert sum(1 if each.merged is None else each.merged for each in held[0]) == len(calls)


def test_a_thousand_calls_are_merged_into_one_and_the_last() -> None:
    """The last call keeps its segments; the others and the gaps between them become sums."""
    calls = [
        ChildInterval("chat m", at, at + 6, (Segment("decode", 0, 6),), first_visible_ns=at + 2)
        for at in range(0, 10_000, 10)
    ]

    merged_calls, _ = merged(calls, [])

    work = scope_timeline(0, 10_000, calls=merged_calls)
    assert [each.merged for each in merged_calls] == [999, None]
    assert [(segment.name, segment.duration_ns) for segment in work.timeline.segments] == [
        ("call", 5_994),
        ("prepare", 3_996),
        ("decode", 6),
        ("postprocess", 4),
    ]
    assert work.timeline.metrics["time_to_first_visible_token"].value == 2


def test_merged_stages_around_and_inside_calls_keep_separate_sums() -> None:
    """The stage's own time, the calls inside it, and the total."""
    calls = [ChildInterval("chat m", at + 2, at + 5) for at in range(0, 100, 10)]
    stages = [ChildInterval("retrieve", at, at + 8) for at in range(0, 100, 10)]

    merged_calls, merged_stages = merged(calls, stages, open_stages=[ChildInterval("loop", 0, 0)])

    assert [(each.name, each.merged) for each in merged_stages] == [
        ("retrieve", 10),
        ("retrieve", 0),
        ("retrieve", 0),
    ]
    assert len(merged_calls) == 2
    assert sums(scope_timeline(0, 100, stages=merged_stages))[0]["retrieve", Source.MEASURED] == 80
