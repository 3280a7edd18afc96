"""The diagnosis of requests with several steps names the step, and the cause in it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from latspan._model.goals import Budget
from latspan._study.diagnose import Diagnosis, diagnose, parse_goal
from support.agent_runs import Work, model, records, thinking, tool

RUNS = 400
MS = 1_000_000


def diagnosed(runs: Sequence[Sequence[Work]], *, budget: Budget | None = None) -> Diagnosis:
    return diagnose(records(runs), parse_goal("p95 duration"), budget=budget)


def is_slow(number: int) -> bool:
    return number % 10 == 0


def test_a_queue_is_named_in_its_step() -> None:
    """Four calls and a tool; the second call of slow runs waits in the queue."""
    found = diagnosed(
        [
            [
                model(prefill=20, decode=40),
                tool("search", 60),
                model(queue=400 if is_slow(number) else 1, prefill=20, decode=40),
                model(prefill=20, decode=40),
                model(prefill=20, decode=40),
            ]
            for number in range(RUNS)
        ]
    )

    assert found.finding is not None
    assert found.finding.cause == "under_capacity"
    assert found.step == "step 3 (chat m)"
    assert "queue in step 3 (chat m) is 100 % of the difference" in found.sentence
    assert "queue in step 3 (chat m): 400 ms, in typical requests 1.0 ms" in found.finding.evidence


def test_a_slow_tool_is_named() -> None:
    found = diagnosed(
        [
            [
                model(prefill=20, decode=40),
                tool("search", 500 if is_slow(number) else 50),
                model(prefill=20, decode=40),
            ]
            for number in range(RUNS)
        ]
    )

    assert found.finding is not None
    assert (found.finding.cause, found.finding.segments) == ("slow_tool", ("search",))
    assert "the tool 'search'" in found.sentence


def test_the_facts_are_those_of_the_call_in_that_step() -> None:
    """Only the second call of slow runs has a long prompt; the last call has a short one."""
    lengths = [5_000 + 10 * number if is_slow(number) else 100 + number for number in range(RUNS)]
    found = diagnosed(
        [
            [
                model(prefill=20, decode=40),
                model(prefill=length / 5, decode=40, tokens=length),
                model(prefill=20, decode=40),
            ]
            for length in lengths
        ]
    )

    assert found.finding is not None
    assert (found.finding.cause, found.step) == ("long_context", "step 2 (chat m)")


def test_work_that_is_spread_over_calls_is_a_chain() -> None:
    """None of them is slow by itself."""
    found = diagnosed(
        [
            [*(model("chat rewriter", prefill=25) for _ in range(6)), model(decode=20)]
            for _ in range(RUNS)
        ]
    )

    assert found.finding is not None
    assert found.finding.cause == "call_chain"
    assert "'chat rewriter'" in found.finding.lever
    assert found.step is None


def test_a_delay_that_is_spread_over_calls_is_no_chain() -> None:
    """All calls wait in the queue of one server."""
    found = diagnosed(
        [
            [model(queue=300 if is_slow(number) else 5, prefill=20, decode=40) for _ in range(4)]
            for number in range(RUNS)
        ]
    )

    assert found.finding is not None
    assert found.finding.cause == "under_capacity"


def test_more_calls_than_usual_are_many_steps() -> None:
    """Although no segment of theirs has most of the time."""
    found = diagnosed(
        [
            [
                model(connect=10, send=10, prefill=10, network=10, decode=10)
                for _ in range(12 if is_slow(number) else 3)
            ]
            for number in range(RUNS)
        ]
    )

    assert found.finding is not None
    assert found.finding.cause == "many_steps"
    assert found.sentence == (
        "At p95 duration, slow requests make 12.0 calls one after another, and typical ones 3.0,"
        " which explains 100 % of the difference."
    )
    assert found.finding.evidence[0] == "a call of a typical request takes 50.0 ms"


def test_more_calls_that_are_longer_are_not_many_steps() -> None:
    """Six calls that wait 300 ms each, instead of three that wait 5 ms: the queue is the cause."""
    found = diagnosed(
        [
            [
                model(queue=300 if is_slow(number) else 5, prefill=10, decode=40)
                for _ in range(6 if is_slow(number) else 3)
            ]
            for number in range(RUNS)
        ]
    )

    assert found.finding is not None
    assert found.finding.cause == "under_capacity"


@pytest.mark.parametrize(
    ("place", "cause"),
    [(0, "client_preparation"), (1, "framework"), (2, "post_processing")],
)
def test_the_time_of_the_application_is_named_by_its_place(place: int, cause: str) -> None:
    def own(number: int, here: int) -> Work:
        return thinking(400 if is_slow(number) and here == place else 2)

    found = diagnosed(
        [
            [
                own(number, 0),
                model(prefill=20, decode=40),
                own(number, 1),
                model(prefill=20, decode=40),
                own(number, 2),
            ]
            for number in range(RUNS)
        ]
    )

    assert found.finding is not None
    assert found.finding.cause == cause


def test_without_a_step_there_is_nothing_to_name() -> None:
    found = diagnosed([[thinking(400 if is_slow(number) else 40)] for number in range(RUNS)])

    assert found.conclusion == "not_instrumented"


def test_a_budget_counts_the_application_by_its_place() -> None:
    """Before the first step as preparation, after the last one as post-processing."""
    budget = Budget(preparation_ns=30 * MS, postprocessing_ns=30 * MS)
    found = diagnosed(
        [
            [
                thinking(40),
                model(decode=100),
                thinking(5),
                model(decode=100),
                thinking(20),
            ]
            for _ in range(RUNS)
        ],
        budget=budget,
    )

    rows = {row.component: round(row.actual_ns / MS) for row in found.budget}
    assert rows["preparation"] == 40
    assert rows["postprocessing"] == 20
    assert rows["application"] == 5
