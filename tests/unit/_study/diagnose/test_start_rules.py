"""The rule on first requests, on small tables whose cause is known."""

from __future__ import annotations

import numpy as np
import pytest

from latspan._study.diagnose import diagnose_table
from support.tables import SIZE, cause_of, in_tail, table_in_ms

_EVEN = [100.0] * SIZE


def test_the_first_requests_after_idle_times_are_a_cold_start() -> None:
    """A tail of first requests after idle times is explained by these, whatever leads."""
    starts = [1_000.0 * number + 60_000.0 * (number // 50) for number in range(SIZE)]
    slow = [number % 50 < 3 for number in range(SIZE)]
    wait = [4_000.0 if each else 50.0 for each in slow]
    assert cause_of({"server_wait": wait, "decode": _EVEN}, starts=starts) == "cold_start"


def test_long_prompts_after_idle_times_are_no_cold_start() -> None:
    """In sparse traffic, every second request is a first one."""
    starts = [40_000.0 * (number // 2) + 1_000.0 * (number % 2) for number in range(SIZE)]
    tokens = in_tail(500, 5_000)
    segments = {"prefill": [each / 5 for each in tokens], "decode": [10.0] * SIZE}
    assert cause_of(segments, starts=starts, numbers={"input_tokens": tokens}) == "long_context"


def test_a_server_that_sleeps_early_is_cold() -> None:
    """The idle time after which it is cold is found in the recording."""
    starts = [1_000.0 * (number // 10) + 60.0 * (number % 10) for number in range(SIZE)]
    wait = [400.0 if number % 10 == 0 else 20.0 for number in range(SIZE)]
    assert cause_of({"server_wait": wait, "decode": [10.0] * SIZE}, starts=starts) == "cold_start"


@pytest.mark.parametrize("seed", range(30))
def test_a_gateway_that_stops_at_times_is_no_cold_start(seed: int) -> None:
    """Few of its stops follow a time without requests, and some of them do by chance."""
    starts = np.cumsum(np.random.default_rng(seed).exponential(50, 130))
    since_stop = starts % 1_200
    wait = np.where(since_stop < 450, 450 - since_stop, 5.0)
    segments = {"gateway": wait.tolist(), "decode": [1.0] * len(wait)}
    assert cause_of(segments, starts=starts.tolist()) == "gateway_queue"


@pytest.mark.parametrize(("wakes_ms", "cause"), [(300, "cold_start"), (0, "server_wait")])
def test_the_time_after_which_a_server_sleeps_is_found(wakes_ms: float, cause: str) -> None:
    """Most requests wait with the first one until the server is awake, so typical ones are slow."""
    random = np.random.default_rng(8)
    starts, waits, now = [], [], 0.0
    for burst in range(8):
        idle = 60.0 + 40 * burst
        now += idle
        awake = now + (wakes_ms if idle > 200 else 0)
        at = np.sort(random.uniform(0, 300, 50)) + now
        starts += at.tolist()
        waits += np.maximum(awake - at, np.where(random.random(50) < 0.4, 60.0, 8.0)).tolist()
        now = max(at[-1], awake) + 20
    assert cause_of({"server_wait": waits, "decode": [1.0] * SIZE}, starts=starts) == cause


@pytest.mark.parametrize(
    ("segment", "cause"), [("server_wait", "cold_start"), ("connect", "no_connection_reuse")]
)
def test_a_connection_that_was_closed_while_idle_is_no_cold_start(segment: str, cause: str) -> None:
    """The client opens a new one, and the system behind it answers as fast as before."""
    starts = [1_000.0 * (number // 10) + 60.0 * (number % 10) for number in range(SIZE)]
    segments = {segment: in_tail(20, 400), "decode": [10.0] * SIZE}
    assert cause_of(segments, starts=starts) == cause


def test_what_is_as_slow_in_a_busy_time_is_no_cold_start() -> None:
    """A report runs every minute, sometimes after an idle time, and is slow whenever it runs."""
    places = [(each // 8, each % 8) for each in range(SIZE)]
    starts = [60_000.0 * minute + 300 * number for minute, number in places]
    slow = [number == (0 if minute % 2 else 6) for minute, number in places]
    segments = {"retrieve": [3_000.0 if each else 20.0 for each in slow], "decode": [50.0] * SIZE}
    assert cause_of(segments, starts=starts, kinds={"retrieve": "retrieve"}) == "retrieval"


def test_one_cold_request_is_not_what_all_others_wait_for() -> None:
    """A connection of 400 ms is opened once, and each request is 190 ms away."""
    random = np.random.default_rng(5)
    network = 190 + random.exponential(2, SIZE)
    segments = {"connect": [400.0] + [0.0] * (SIZE - 1), "network": network.tolist()}
    assert cause_of(segments, goal="p95 ttft") == "network_distance"


def test_the_length_of_the_idle_times_is_stated() -> None:
    """It is what a system must be kept awake for."""
    starts = [1_000.0 * (number // 10) + 60.0 * (number % 10) for number in range(SIZE)]
    segments = {"server_wait": in_tail(20, 400), "decode": [10.0] * SIZE}
    finding = diagnose_table(table_in_ms(segments, starts=starts)).finding
    assert finding is not None
    assert finding.summary == "the first requests after an idle time of 430 ms or more are slow"
    assert finding.lever.startswith("keep the system awake")


@pytest.mark.parametrize("idle_ms", [0, 60_000])
def test_requests_that_come_at_once_are_no_cold_start(idle_ms: float) -> None:
    """They are slow because of one another, whether they come first or not."""
    size = 40
    herd = [10.0 * number for number in range(size)]
    later = [idle_ms + 10_000.0 + 1_000 * number for number in range(SIZE - size)]
    segments = {"server_wait": [3_000.0] * size + [100.0] * len(later), "decode": [10.0] * SIZE}
    assert cause_of(segments, starts=herd + later) == "server_wait"


def test_users_who_wait_for_responses_may_begin_at_once() -> None:
    """Eight users are in flight later as well, so their number makes none of them slow."""
    users, values = 8, [4_000.0] * 8 + [400.0] * (SIZE - 8)
    ready = [0.0] * users
    starts: list[float] = []
    for value in values:
        user = int(np.argmin(ready))
        starts.append(ready[user])
        ready[user] += value
    assert cause_of({"server_wait": values}, starts=starts) == "cold_start"
