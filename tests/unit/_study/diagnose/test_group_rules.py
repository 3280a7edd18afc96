"""Rules on groups of requests, each on a small table whose cause is known."""

from __future__ import annotations

import numpy as np
import pytest

from latspan import semconv
from latspan._study.diagnose import diagnose_table
from support.tables import SIZE, cause_of, in_tail, table_in_ms

_TAIL = 40
_EVEN = [100.0] * SIZE


def test_one_slow_server_is_named() -> None:
    """A replica that is slow throughout, at the same lengths, holds the tail."""
    servers = ["b:1" if number % 10 == 0 else "a:1" for number in range(SIZE)]
    table = table_in_ms({"decode": in_tail(100, 900)}, groups={semconv.SERVER_ADDRESS: servers})
    finding = diagnose_table(table).finding
    assert finding is not None
    assert finding.cause == "slow_group"
    assert "'b:1'" in finding.summary


def test_a_slow_server_is_named_in_a_short_recording() -> None:
    """The band has half of 60 requests, so that a fifth of them cannot fill it."""
    size = 60
    servers = ["b:1" if number % 5 == 0 else f"a:{number % 2}" for number in range(size)]
    times = [
        900.0 if server == "b:1" else 100.0 + number % 7 for number, server in enumerate(servers)
    ]
    table = table_in_ms({"decode": times}, groups={semconv.SERVER_ADDRESS: servers})
    finding = diagnose_table(table).finding
    assert finding is not None
    assert finding.cause == "slow_group"
    assert "'b:1'" in finding.summary


def test_a_group_with_longer_prompts_is_not_slow_by_itself() -> None:
    """Requests that are larger are slow because of that."""
    routes = ["/long" if number % 10 == 0 else "/chat" for number in range(SIZE)]
    tokens = in_tail(500, 5_000)
    cause = cause_of(
        {"prefill": in_tail(50, 900)}, groups={"route": routes}, numbers={"input_tokens": tokens}
    )
    assert cause == "long_context"


def test_a_group_in_one_long_queue_is_not_slow_throughout() -> None:
    """A queue that one tenant met by chance is not a slow tenant."""
    tenants = ["t1" if number < _TAIL else "t2" for number in range(SIZE)]
    queue = [900.0] * _TAIL + [5.0] * (SIZE - _TAIL)
    segments = {"queue": queue, "decode": _EVEN}
    assert cause_of(segments, groups={"tenant": tenants}) == "under_capacity"


def test_a_slow_group_has_the_segment_in_which_it_loses() -> None:
    """A tenant cannot be taken out; its retrieval can be made shorter."""
    tenants = ["t3" if number % 10 == 0 else f"t{number % 3}" for number in range(SIZE)]
    segments = {"retrieve": in_tail(2, 900), "decode": _EVEN}
    finding = diagnose_table(table_in_ms(segments, groups={"tenant": tenants})).finding
    assert finding is not None
    assert (finding.cause, finding.segments) == ("slow_group", ("retrieve",))
    assert "because of retrieve (900 ms on average, others 2.0 ms)" in finding.summary
    assert finding.lever.startswith("shorten retrieve for 't3'")


def _served(*, precedence: bool) -> tuple[list[float], list[float], list[str], list[float]]:
    """Return starts, waits and tenants at one server, in ms, and times to first tokens in ns."""
    random = np.random.default_rng(3)
    starts = np.cumsum(random.exponential(11, SIZE))
    is_batch = random.random(SIZE) < 0.15
    waits, free, left = np.zeros(SIZE), 0.0, set(range(SIZE))
    while left:
        here = [number for number in left if starts[number] <= free] or [min(left)]
        number = min(here, key=lambda each: (precedence and is_batch[each], each))
        waits[number] = max(free - starts[number], 0.0)
        free = max(free, starts[number]) + 10
        left.remove(number)
    tenants = ["batch" if each else "chat" for each in is_batch]
    return starts.tolist(), waits.tolist(), tenants, ((waits + 5) * 1e6).tolist()


def test_a_group_that_others_overtake_in_a_queue_is_slow() -> None:
    """It need not fill the tail: others wait too, but not because of their order."""
    starts, waits, tenants, first = _served(precedence=True)
    # Of one request, the time to the first token is not known.
    first[0] = float("nan")
    table = table_in_ms(
        {"queue": waits, "prefill": [5.0] * SIZE},
        starts=starts,
        groups={"tenant": tenants},
        numbers={"time_to_first_token": first},
        goal="p95 ttft",
    )
    finding = diagnose_table(table).finding
    assert finding is not None
    assert finding.cause == "slow_group"
    assert "'batch'" in finding.summary


def test_a_queue_that_is_served_in_order_has_no_slow_group() -> None:
    """The same arrivals and the same tenants wait for capacity."""
    starts, waits, tenants, first = _served(precedence=False)
    segments = {"queue": waits, "prefill": [5.0] * SIZE}
    numbers = {"time_to_first_token": first}
    facts = {"starts": starts, "groups": {"tenant": tenants}, "numbers": numbers}
    assert cause_of(segments, **facts, goal="p95 ttft") == "under_capacity"


def test_slow_tokens_of_one_group_are_its_own() -> None:
    """Also if its answers are longer, so that the group is not the only difference."""
    tokens = in_tail(50, 150)
    models = ["large" if number % 10 < 2 else "small" for number in range(SIZE)]
    pace = [45.0 if model == "large" else 12.0 for model in models]
    decode = [one * each for one, each in zip(tokens, pace, strict=True)]
    numbers = {"output_tokens": tokens, "chunk_gap_median": [each * 1e6 for each in pace]}
    finding = diagnose_table(
        table_in_ms({"decode": decode}, groups={"model": models}, numbers=numbers)
    ).finding
    assert finding is not None
    assert finding.cause == "slow_group"
    assert "because of the time per token (45.0 ms on average, others 12.0 ms)" in finding.summary


def test_a_group_that_is_the_load_is_not_overtaken() -> None:
    """Others go ahead of it, and its own requests are what it waits for."""
    starts, waits, _, _ = _served(precedence=False)
    is_few = np.arange(SIZE) % 20 == 0
    queue = np.where(is_few, 0.0, np.array(waits) + 40)
    cause = cause_of(
        {"queue": queue.tolist(), "prefill": [5.0] * SIZE},
        starts=starts,
        groups={"tenant": ["few" if each else "most" for each in is_few]},
        numbers={"time_to_first_token": ((queue + 5) * 1e6).tolist()},
        goal="p95 ttft",
    )
    assert cause == "under_capacity"


@pytest.mark.parametrize("seed", range(8))
def test_equal_replicas_are_no_slow_group_by_chance(seed: int) -> None:
    """One of two equal queues is the longer one for a while, and as fast at the same load."""
    random = np.random.default_rng(seed)
    starts = np.cumsum(random.exponential(10, SIZE))
    replicas: list[int] = random.integers(0, 2, SIZE).tolist()
    waits, free = np.zeros(SIZE), [0.0, 0.0]
    for number, replica in enumerate(replicas):
        free[replica] = max(free[replica], starts[number]) + random.exponential(18)
        waits[number] = free[replica] - starts[number]
    first = ((waits + 5) * 1e6).tolist()
    cause = cause_of(
        {"queue": waits.tolist(), "prefill": [5.0] * SIZE},
        starts=starts.tolist(),
        groups={"replica": [f"r{each}" for each in replicas]},
        numbers={"time_to_first_token": first},
        goal="p95 ttft",
    )
    assert cause == "under_capacity"


@pytest.mark.parametrize(
    ("attribute", "is_place"),
    [("http.response.header.x-replica", True), ("user.timezone", False), ("serverless", False)],
)
def test_only_a_place_can_be_left(attribute: str, is_place: bool) -> None:
    """A word of the attribute's name shows it, and a part of a word does not."""
    values = ["b" if number % 10 == 0 else "a" for number in range(SIZE)]
    table = table_in_ms({"decode": in_tail(100, 900)}, groups={attribute: values})
    finding = diagnose_table(table).finding
    assert finding is not None
    assert ("out of the rotation" in finding.lever) == is_place


@pytest.mark.parametrize(("of_all", "cause"), [(True, "retrieval"), (False, "slow_group")])
def test_a_group_that_is_active_while_all_are_slow_is_not_slow(*, of_all: bool, cause: str) -> None:
    """Requests of others that start beside its own are as slow."""
    random = np.random.default_rng(2)
    phase = np.arange(SIZE) % 80 < 8
    active = random.random(SIZE) < np.where(phase, 0.8, 0.03)
    tenants = ["busy" if each else "other" for each in active]
    slow = phase if of_all else active
    segments = {"retrieve": np.where(slow, 1_000.0, 100.0).tolist(), "decode": _EVEN}
    named = cause_of(segments, groups={"tenant": tenants}, kinds={"retrieve": "retrieve"})
    assert named == cause


def test_a_group_that_misses_the_cache_has_more_to_process() -> None:
    """Its prompts are as long, and the cause is that they are processed again."""
    turns = ["first" if number % 10 == 0 else "later" for number in range(SIZE)]
    numbers = {
        "input_tokens": [6_000.0 + number % 90 for number in range(SIZE)],
        "cached_tokens": in_tail(5_500, 0),
        "output_tokens": [30.0] * SIZE,
    }
    segments = {"prefill": in_tail(150, 1_800), "decode": _EVEN}
    assert cause_of(segments, groups={"turn": turns}, numbers=numbers) == "reprocessed_prefix"


@pytest.mark.parametrize(
    ("numbers", "evidence"),
    [
        ({}, "whether its prompts or answers are longer is not known"),
        (
            {"input_tokens": [50.0] * SIZE, "output_tokens": [9.0] * SIZE},
            "its prompts and answers are not longer",
        ),
    ],
)
def test_the_evidence_states_whether_sizes_are_known(
    numbers: dict[str, list[float]], evidence: str
) -> None:
    """Without the numbers of tokens, a slow group may only have more to do."""
    tenants = ["B" if number % 10 == 0 else "A" for number in range(SIZE)]
    segments = {"prefill": in_tail(200, 1_000), "decode": _EVEN}
    table = table_in_ms(segments, groups={"tenant": tenants}, numbers=numbers)
    finding = diagnose_table(table).finding
    assert finding is not None
    assert finding.cause == "slow_group"
    assert finding.evidence[-1].endswith(evidence)
