"""The diagnosis of requests with several steps names the step, and the cause in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from latspan._model.goals import Budget
from latspan._model.segments import Kind
from latspan._study.diagnose import Conclusion, Diagnosis, diagnose, parse_goal
from latspan.testing import MetricValue, RequestRecord
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
        "At p95 duration, slow requests have 12.0 steps and typical ones 3.0, which explains 100 %"
        " of the difference."
    )
    assert found.finding.evidence == ("calls: 12.0 per slow request, 3.0 per typical one",)


def test_more_steps_are_named_although_a_tool_takes_most_of_their_time() -> None:
    """Each search takes 60 ms, in slow runs and in typical ones."""
    found = diagnosed(
        [
            [
                step
                for _ in range(12 if is_slow(number) else 3)
                for step in (model(prefill=10, decode=25), tool("search", 60), thinking(5))
            ]
            for number in range(RUNS)
        ]
    )

    assert found.finding is not None
    assert found.finding.cause == "many_steps"
    assert "24.0 steps and typical ones 6.0" in found.sentence
    assert found.finding.evidence == (
        "calls: 12.0 per slow request, 3.0 per typical one",
        "search: 12.0 per slow request, 3.0 per typical one",
    )


def test_a_chain_of_the_same_length_explains_no_difference() -> None:
    """Five calls in each run; those of slow runs have long prompts."""
    lengths = [8_000 + 10 * number if is_slow(number) else 600 + number for number in range(RUNS)]
    found = diagnosed(
        [
            [model(prefill=length / 10, decode=40, tokens=length) for _ in range(5)]
            for length in lengths
        ]
    )

    assert found.finding is not None
    assert found.finding.cause == "long_context"


def test_a_slow_call_is_named_whatever_its_number() -> None:
    """Up to two tools run before it."""
    found = diagnosed(
        [
            [
                *[tool("search", 5)] * (number % 3),
                model("chat small", prefill=10, decode=20),
                model("chat big", prefill=500 if is_slow(number) else 10, decode=20),
                model("chat small", prefill=10, decode=20),
            ]
            for number in range(RUNS)
        ]
    )

    assert found.finding is not None
    assert found.finding.cause == "slow_prefill"
    assert found.step == "chat big"
    assert "prefill in chat big is" in found.sentence


def test_a_goal_on_a_first_token_counts_the_applications_time_up_to_it() -> None:
    """The work after the last step is longer, and nobody waits for it before the first text."""

    def records_of(number: int, record: RequestRecord) -> RequestRecord:
        if record.kind is not Kind.REQUEST:
            return record
        first_ns = ((300 if is_slow(number) else 30) + 40) * MS
        first = {"time_to_first_visible_token": MetricValue(first_ns)}
        return replace(record, metrics={**record.metrics, **first}, streamed=True)

    runs = [
        [
            thinking(300 if is_slow(number) else 30),
            model(prefill=30, decode=20),
            thinking(800 if is_slow(number) else 80),
        ]
        for number in range(RUNS)
    ]
    made = [records_of(at // 2, record) for at, record in enumerate(records(runs))]
    found = diagnose(made, parse_goal("p95 ttfv"))

    assert found.finding is not None
    assert found.finding.cause == "client_preparation"
    assert found.finding.evidence[0].startswith("slow requests spend 300 ms before the first step")


def test_a_segment_that_is_inferred_is_not_stated_as_certain() -> None:
    """The longest of two steps at the same time takes the time; nothing shows who waited for it."""
    runs = [[tool("write", 500 if is_slow(number) else 20)] for number in range(RUNS)]
    made = [
        replace(record, details={**record.details, "latspan.path.inferred": 0.9 * seconds})
        for record in records(runs)
        for seconds in [record.duration_ns / 1e9]
    ]
    found = diagnose(made, parse_goal("p95 duration"))

    assert "(inferred: for 90 % of the time several steps ran at once" in found.sentence
    assert "(inferred" not in diagnosed(runs).sentence


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


def test_the_time_of_an_application_without_calls_is_not_explained() -> None:
    """Nothing shows what it is for: it neither prepares a call nor processes its answer."""
    found = diagnosed(
        [[tool("search", 5), thinking(500 if is_slow(number) else 80)] for number in range(RUNS)]
    )

    assert found.conclusion is Conclusion.NOT_INSTRUMENTED
    assert "is in no step" in found.sentence
