"""The slow requests are selected, and one sentence describes where their time went."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from latspan import Kind, Snapshot, Source
from latspan._study.render.group import calls_in
from latspan._study.render.slow import median_of, sentence, slowest_of, slowest_tenth
from latspan.integrations import Outcome
from latspan.testing import RequestRecord

MakeCall = Callable[..., RequestRecord]
TakeSnapshot = Callable[[Iterable[RequestRecord]], Snapshot]


def measured(**parts_ms: float) -> list[tuple[str, float, Source]]:
    return [(name, length, Source.MEASURED) for name, length in parts_ms.items()]


@pytest.mark.parametrize(("number", "slow"), [(1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (40, 4)])
def test_the_slowest_tenth_is_rounded_down_but_never_empty(
    call: MakeCall, number: int, slow: int
) -> None:
    """A tenth of nineteen is one, and of one is one."""
    parts = slowest_tenth([call(measured(decode=1 + each)) for each in range(number)])

    assert (slow, number - slow) == (len(parts.slow), len(parts.others))
    assert number * 1_000_000 == parts.slow[0].duration_ns


def test_the_median_is_an_existing_request(call: MakeCall) -> None:
    """Of four, the second fastest is returned, not the mean of two."""
    calls = [call(measured(decode=length)) for length in (40, 10, 30, 20)]

    assert calls[3] is median_of(calls)
    assert calls[0] is slowest_of(calls)


def test_an_empty_report_has_no_median_and_no_slowest() -> None:
    assert median_of([]) is None
    assert slowest_of([]) is None
    assert slowest_tenth([]).share("queue") is None
    assert sentence([], "call") == "No call took any time, so there are no slow ones to explain."


def test_only_calls_are_compared_in_their_order(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """A request around the calls would count their time twice."""
    later = call(measured(decode=1), order=2)
    earlier = call(measured(decode=1), order=1)
    parent_context = call(measured(call=2), kind=Kind.REQUEST)

    found = calls_in(snapshot_of([later, parent_context, earlier])).records

    assert (earlier, later) == found


def test_a_leading_cost_is_named(
    forty_calls: tuple[RequestRecord, ...],
) -> None:
    """The sentence has the leading cost, its source, the next cost, and the other requests."""
    assert sentence(forty_calls, "call") == (
        "The slowest 4 of 40 calls spent 79 % of their time in queue (waiting for the server"
        " to start work; estimated) and 16 % in prefill (reading the prompt); the other 36 spent"
        " 2 % in queue."
    )


def test_two_similar_costs_are_not_a_single_cost(call: MakeCall) -> None:
    """A lead of five points is not enough."""
    calls = [call(measured(prefill=45, decode=50, send=5)), call(measured(prefill=1, decode=3))]

    assert sentence(calls, "call") == (
        "No single cost: the slowest of 2 calls spent 50 % of its time in decode (writing the"
        " answer) and 45 % in prefill (reading the prompt); the other one spent 75 % in decode and"
        " 25 % in prefill."
    )


def test_costs_spread_over_many_segments_are_not_a_single_cost(call: MakeCall) -> None:
    """If each is below a tenth, the first does not lead."""
    stages = {f"stage_{letter}": 5.0 for letter in "abcdefghijklmnopqrst"}

    assert sentence([call(measured(**stages))], "call") == (
        "No single cost: the only call spent 5 % of its time in stage_a (a stage of its own)"
        " and 5 % in stage_b (a stage of its own)."
    )


def test_a_blocked_event_loop_has_a_remedy(call: MakeCall) -> None:
    """It is the application's own, so the sentence says what to change."""
    assert sentence([call(measured(event_loop=75, decode=25))], "call") == (
        "The only call spent 75 % of its time in event_loop (the application's event loop was"
        " blocked or busy) and 25 % in decode (writing the answer). Move CPU-bound work off the"
        " event loop: pure Python code to another process, because asyncio.to_thread helps only"
        " with code that releases the interpreter's lock (I/O, numpy)."
    )


def test_the_outcome_of_a_failed_slow_request_is_shown(call: MakeCall) -> None:
    """A timeout is not a slow response."""
    calls = [
        call(measured(server_wait=100), outcome=Outcome.TIMEOUT),
        *(call(measured(decode=1)) for _ in range(9)),
    ]

    assert sentence(calls, "call") == (
        "The slowest of 10 calls spent 100 % of its time in server_wait (waiting for the"
        " server, which reports no times) (it ended as timeout); the other 9 spent 0 % in"
        " server_wait."
    )
    assert "(of these, 1 ended as closed early and 1 ended as timeout); the other 18" in sentence(
        [
            *calls,
            call(measured(server_wait=200), outcome=Outcome.CLOSED_EARLY),
            *(call(measured(decode=1)) for _ in range(9)),
        ],
        "call",
    )
