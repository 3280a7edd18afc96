"""The path of a request has one activity at each instant, and that is what it waited for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._model.segments import Kind, Segment
from latspan._model.timeline._activity import Activity
from latspan._model.timeline._path import path_of

DONE_NS = 40


def activity(
    name: str, start_ns: int, done_ns: int | None, *children: Activity, was_cut: bool = False
) -> Activity:
    return Activity(Kind.STAGE, name, start_ns, done_ns, was_cut=was_cut, children=list(children))


def request(*children: Activity, done_ns: int = DONE_NS) -> Activity:
    return Activity(Kind.REQUEST, "answer", 0, done_ns, children=list(children))


def shown(root: Activity, *, keeps_open: bool = False) -> list[tuple[str, int]]:
    assert root.done_ns is not None
    path = path_of(root, root.done_ns, keeps_open=keeps_open)
    return [(piece.owner.name, piece.end_ns - piece.begin_ns) for piece in path.pieces]


def test_steps_one_after_another_have_their_own_time() -> None:
    root = request(activity("chat", 5, 15), activity("search", 20, 30))

    assert shown(root) == [
        ("answer", 5),
        ("chat", 10),
        ("answer", 5),
        ("search", 10),
        ("answer", 10),
    ]


def test_of_two_parallel_steps_the_last_to_finish_was_waited_for() -> None:
    root = request(activity("chat", 5, 35), activity("search", 6, 20))

    assert shown(root) == [("answer", 5), ("chat", 30), ("answer", 5)]


def test_the_time_in_which_two_parallel_steps_were_open_is_inferred() -> None:
    root = request(activity("chat", 5, 35), activity("search", 6, 20), activity("read", 18, 22))

    assert path_of(root, DONE_NS, keeps_open=False).inferred_ns == 22 - 6


def test_a_step_inside_another_is_certain() -> None:
    root = request(activity("search", 5, 35, activity("GET", 10, 20)))

    assert path_of(root, DONE_NS, keeps_open=False).inferred_ns == 0


def test_a_tool_that_begins_during_a_stream_keeps_the_stream_before_it() -> None:
    root = request(activity("chat", 0, 20), activity("search", 15, 40))

    assert shown(root) == [("chat", 15), ("search", 25)]


def test_the_loser_of_a_race_was_not_waited_for() -> None:
    """It was cancelled when the winner had finished, and its cancellation took a moment."""
    root = request(activity("slow", 0, 31, was_cut=True), activity("fast", 1, 30))

    assert shown(root) == [("slow", 1), ("fast", 29), ("slow", 1), ("answer", 9)]


def test_a_call_that_was_given_up_before_a_fallback_keeps_its_time() -> None:
    root = request(activity("chat", 0, 20, was_cut=True), activity("fallback", 20, 30))

    assert shown(root) == [("chat", 20), ("fallback", 10), ("answer", 10)]


@pytest.mark.parametrize("done_ns", [None, 41])
def test_what_is_open_at_the_end_was_not_waited_for(done_ns: int | None) -> None:
    """A background call that ends a moment after the request, or never, and what is inside it."""
    inner = activity("GET", 12, 20)
    root = request(activity("background", 10, done_ns, inner), activity("chat", 0, 30))

    assert shown(root) == [("chat", 30), ("answer", 10)]


@pytest.mark.parametrize("done_ns", [None, 41])
def test_a_producer_that_ends_just_after_the_request_does_not_hide_its_work(
    done_ns: int | None,
) -> None:
    """The request ends when it has read the last result, and the producer a moment later."""
    steps = activity("search", 5, 20), activity("chat", 20, 38)
    root = request(activity("producer", 1, done_ns, *steps))

    assert shown(root) == [("answer", 5), ("search", 15), ("chat", 18), ("answer", 2)]


def test_a_tool_in_the_loop_over_a_stream_has_its_time() -> None:
    """The call is open all the time, and the application does not wait for it in ``consumer``."""
    parts = (Segment("decode", 0, 10), Segment("consumer", 10, 30), Segment("decode", 30, 40))
    chat = Activity(Kind.CALL, "chat", 0, 40, segments=parts)
    root = request(chat, activity("search", 12, 28))

    assert shown(root) == [("chat", 12), ("search", 16), ("chat", 12)]
    assert path_of(root, DONE_NS, keeps_open=False).inferred_ns == 0


def test_a_tool_that_begins_in_the_loop_and_outlives_the_chunk_keeps_the_stream() -> None:
    parts = (Segment("decode", 0, 10), Segment("consumer", 10, 14), Segment("decode", 14, 40))
    chat = Activity(Kind.CALL, "chat", 0, 40, segments=parts)
    root = request(chat, activity("search", 12, 28))

    assert shown(root) == [("chat", 12), ("search", 2), ("chat", 26)]


def test_a_cut_request_waited_for_what_was_open() -> None:
    root = request(activity("chat", 0, 30), activity("search", 30, None))

    assert shown(root, keeps_open=True) == [("chat", 30), ("search", 10)]


def test_a_task_that_outlives_its_stage_does_not_win_inside_it() -> None:
    """It was begun in the stage, and awaited after it."""
    root = request(activity("plan", 0, 10, activity("search", 2, 30)))

    assert shown(root) == [("plan", 2), ("search", 28), ("answer", 10)]


def test_two_sub_agents_in_a_task_group_show_the_slower_one() -> None:
    root = request(
        activity("one", 5, 20, activity("chat 1", 6, 19)),
        activity("two", 5, 35, activity("chat 2", 7, 12), activity("chat 3", 15, 34)),
    )

    assert shown(root) == [
        ("answer", 5),
        ("two", 2),
        ("chat 2", 5),
        ("two", 3),
        ("chat 3", 19),
        ("two", 1),
        ("answer", 5),
    ]


def test_a_chain_of_activities_may_be_deeper_than_the_stack() -> None:
    root = request(done_ns=10**6)
    node = root
    for depth in range(1, 3_000):
        inner = activity(str(depth), depth, 10**6 - depth)
        node.children.append(inner)
        node = inner

    assert len(path_of(root, 10**6, keeps_open=False).pieces) == 2 * 3_000 - 1


def test_two_thousand_parallel_activities_are_walked_in_one_sweep() -> None:
    children = [activity(str(at), at, 5_000 + at) for at in range(2_000)]
    root = request(*children, done_ns=10_000)

    path = path_of(root, 10_000, keeps_open=False)

    assert [piece.owner.name for piece in path.pieces] == ["0", *["1999"], "answer"]


@st.composite
def trees(draw: st.DrawFn, depth: int = 3, low_ns: int = 0, high_ns: int = DONE_NS) -> Activity:
    """Draw an activity; it may outlive the one around it, be cut, or never end."""
    start_ns = draw(st.integers(low_ns, high_ns))
    done_ns = draw(st.none() | st.integers(start_ns, min(high_ns + 6, start_ns + 40)))
    count = draw(st.integers(0, 3)) if depth else 0
    until_ns = high_ns if done_ns is None else max(start_ns, done_ns)
    children = [draw(trees(depth - 1, start_ns, until_ns)) for _ in range(count)]
    children.sort(key=lambda child: child.start_ns)
    step = activity("step", start_ns, done_ns, *children, was_cut=draw(st.booleans()))
    if not children and done_ns is not None and draw(st.booleans()):
        step.kind = Kind.CALL
        edges = sorted(draw(st.sets(st.integers(1, max(1, done_ns - start_ns)), max_size=4)))
        names = ("decode", "consumer") * 3
        step.segments = tuple(
            Segment(name, low_ns, high_ns)
            for name, low_ns, high_ns in zip(names, [0, *edges], edges, strict=False)
        )
    return step


@st.composite
def requests(draw: st.DrawFn) -> Activity:
    """Draw a request with any activities inside it."""
    children = draw(st.lists(trees(), max_size=5))
    return request(*sorted(children, key=lambda child: child.start_ns))


class BruteForce:
    """Owner of each nanosecond, found by the definition, one nanosecond after another."""

    def __init__(self, root: Activity, *, keeps_open: bool) -> None:
        self.owners: dict[int, Activity] = {}
        self._keeps_open = keeps_open
        self._waited: dict[int, list[tuple[int, int, int, Activity, bool]]] = {}
        self._number = 0
        self._assign(root, [(root, DONE_NS)])
        own = list(self._walk(root, 0, DONE_NS, is_last=False))
        while own:
            own = [
                left
                for node, begin_ns, end_ns in _runs(own)
                for left in self._walk(node, begin_ns, end_ns, is_last=True)
            ]

    def _assign(self, node: Activity, around: list[tuple[Activity, int | None]]) -> None:
        ends_ns = [(child, self._end_ns(child)) for child in map(_known, node.children)]
        for child, end_ns in ends_ns:
            if end_ns is None:
                continue
            depth = next(
                at
                for at in reversed(range(len(around)))
                if (its_end_ns := around[at][1]) is not None and end_ns <= its_end_ns
            )
            is_in_open = any(its_end_ns is None for _, its_end_ns in around[depth:])
            self._number += 1
            held = (child.start_ns, self._number, end_ns, child, child.was_cut or is_in_open)
            self._waited.setdefault(id(around[depth][0]), []).append(held)
        for child, end_ns in ends_ns:
            self._assign(child, [*around, (child, end_ns)])

    def _end_ns(self, child: Activity) -> int | None:
        if child.done_ns is not None and child.done_ns <= DONE_NS:
            return child.done_ns
        return DONE_NS if self._keeps_open else None

    def _walk(
        self, node: Activity, begin_ns: int, until_ns: int, *, is_last: bool
    ) -> Iterator[tuple[Activity, int]]:
        while until_ns > begin_ns:
            open_then = [
                (_is_consumed(child, until_ns - 1), start_ns, number, child)
                for start_ns, number, end_ns, child, counts_last in self._waited.get(id(node), ())
                if start_ns < until_ns <= end_ns and counts_last is is_last
            ]
            if open_then:
                yields, start_ns, _, child = min(open_then, key=lambda held: held[:3])
                low_ns = until_ns - 1
                # Back to its start, or to where a part begins in which it yields.
                while not yields and low_ns > max(start_ns, begin_ns):
                    if _is_consumed(child, low_ns - 1):
                        break
                    low_ns -= 1
                yield from self._walk(child, low_ns, until_ns, is_last=False)
                until_ns = low_ns
            else:
                until_ns -= 1
                if is_last:
                    self.owners[until_ns] = node
                else:
                    yield node, until_ns


def _known(child: object) -> Activity:
    assert isinstance(child, Activity)
    return child


def _is_consumed(call: Activity, instant_ns: int) -> bool:
    """Return whether the application handles a chunk of the call in that nanosecond."""
    return any(
        name == "consumer" and begin_ns <= instant_ns - call.start_ns < end_ns
        for name, begin_ns, end_ns, _ in call.segments
    )


def _runs(own: list[tuple[Activity, int]]) -> Iterator[tuple[Activity, int, int]]:
    """Yield the nanoseconds of each activity as intervals."""
    by_node: dict[int, tuple[Activity, set[int]]] = {}
    for node, instant_ns in own:
        by_node.setdefault(id(node), (node, set()))[1].add(instant_ns)
    for node, instants in by_node.values():
        for instant_ns in sorted(instants):
            if instant_ns - 1 not in instants:
                end_ns = instant_ns
                while end_ns in instants:
                    end_ns += 1
                yield node, instant_ns, end_ns


@given(requests(), st.booleans())
def test_the_path_is_what_the_definition_says_of_each_nanosecond(
    root: Activity, keeps_open: bool
) -> None:
    path = path_of(root, DONE_NS, keeps_open=keeps_open)

    edge_ns = 0
    for piece in path.pieces:
        assert piece.begin_ns == edge_ns < piece.end_ns
        edge_ns = piece.end_ns
    assert edge_ns == DONE_NS
    owners = BruteForce(root, keeps_open=keeps_open).owners
    for piece in path.pieces:
        for instant_ns in range(piece.begin_ns, piece.end_ns):
            assert owners[instant_ns] is piece.owner
    assert 0 <= path.inferred_ns <= DONE_NS
