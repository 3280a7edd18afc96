"""
Overload of the server is a result of a measurement; overload of the generator makes it invalid.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from statistics import median

import pytest

from latspan import semconv
from latspan.testing import Script, ScriptedServer
from support.measuring import Measured, measure, when_valid
from support.stillness import when_still

_SERVICE_MS = 50
_DEADLINE_S = 60
_ONE_AT_A_TIME = Script.chat(tokens=1, prefill_ms=_SERVICE_MS, gap_ms=0, flavor="plain")

pytestmark = pytest.mark.alone


def _durations_from_schedule(done: Measured) -> list[float]:
    """Return the durations of the measured requests in seconds, in the order of their arrival."""
    found: list[tuple[int, float]] = []
    for record in done.recording.records("call"):
        details = record.details
        index = details[semconv.LATSPAN_LOAD_INDEX]
        lag = details[semconv.LATSPAN_LOAD_DISPATCH_LAG]
        assert isinstance(index, int)
        assert isinstance(lag, float)
        if details[semconv.LATSPAN_LOAD_PHASE] == "measured":
            found.append((index, record.duration_ns / 1e9 + lag))
    return [duration for _, duration in sorted(found)]


def test_requests_queue_at_a_rate_that_the_server_cannot_take(tmp_path: Path) -> None:
    """At twice its capacity, each duration is longer than the last by one gap of arrivals."""
    with ScriptedServer(_ONE_AT_A_TIME, slots=1) as server:
        done = when_valid(
            lambda n: measure(
                server.base_url, tmp_path / str(n), "--model", "m", "--rate", "40", "--arrivals",
                "constant", "--requests", "60", "--warmup", "0",
            )
        )  # fmt: skip
    assert done.code == 0, done.errors
    assert done.step["valid"] is True
    assert done.step["reached_per_s"] >= 0.98 * done.step["offered_per_s"]
    durations = _durations_from_schedule(done)
    growth = [later - earlier for earlier, later in pairwise(durations)]
    # A request is served every 50 ms and arrives every 25 ms. Each service also takes the time
    # in which the server notices that its slot is free.
    assert median(growth) == pytest.approx(0.025, abs=0.008)
    assert durations[-1] == pytest.approx(0.05 + 59 * median(growth), rel=0.15)
    assert "not_stationary" in {each["name"] for each in done.step["caveats"]}


def test_a_closed_loop_hides_the_queue_and_is_labelled(tmp_path: Path) -> None:
    """The same server with one user takes its time for one request: no request waits."""
    with ScriptedServer(_ONE_AT_A_TIME, slots=1) as server:
        done = measure(
            server.base_url, tmp_path / "r", "--model", "m", "--concurrency", "1", "--requests",
            "30", "--warmup", "2",
        )  # fmt: skip
    assert done.step["loop"] == "closed"
    assert done.seconds("duration", "start", "p50") < 0.075


def test_a_limit_in_flight_counts_as_waiting(tmp_path: Path) -> None:
    """The server sees one request at a time, but users wait all the same."""
    with ScriptedServer(_ONE_AT_A_TIME, slots=1) as server:
        done = when_valid(
            lambda n: measure(
                server.base_url, tmp_path / str(n), "--model", "m", "--rate", "40", "--arrivals",
                "constant", "--requests", "40", "--warmup", "0", "--max-in-flight", "1",
            )
        )  # fmt: skip
    assert done.step["valid"] is True
    assert done.seconds("duration", "start", "p50") < 0.075
    assert done.seconds("duration", "schedule", "p95") > 0.5


def test_a_ladder_ends_at_saturation(tmp_path: Path) -> None:
    """A server with two slots takes no more with four in flight than with two."""
    with ScriptedServer(_ONE_AT_A_TIME, slots=2) as server:
        runs = count()
        done = when_still(
            lambda: measure(
                server.base_url, tmp_path / str(next(runs)), "--model", "m", "--concurrency", "1",
                "--ladder", "--requests", "20", "--warmup", "4",
            )
        )  # fmt: skip
    levels = [step["load"]["concurrency"] for step in done.document["steps"]]
    assert levels == [1, 2, 4]
    rates = [step["completed_per_s"] for step in done.document["steps"]]
    assert rates[1] == pytest.approx(2 * rates[0], rel=0.2)
    assert rates[2] == pytest.approx(rates[1], rel=0.2)


@contextmanager
def _busy_processor(number: int) -> Generator[None]:
    """Keep a processor busy with another program."""
    busy = subprocess.Popen(
        ["taskset", "-c", str(number), sys.executable, "-c", "while True: pass"]
    )
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


def test_a_starved_generator_is_invalid_and_not_slow(tmp_path: Path) -> None:
    """On a processor that another program uses, in the class for idle ones, it is INVALID."""
    runs = count()
    done = when_still(lambda: _measure_starved(tmp_path / str(next(runs))))
    assert done.code == 4, done.errors
    reasons = {each["name"] for each in done.step["caveats"] if each["invalidates"]}
    assert reasons & {"dispatch_lag", "loop_lag"}
    assert done.step["targets"][0]["verdict"] is None


def _measure_starved(folder: Path) -> Measured:
    processor = min(os.sched_getaffinity(0))
    script = Script.chat(tokens=5, prefill_ms=50, gap_ms=20)
    with ScriptedServer(script) as server, ThreadPoolExecutor(1) as threads:
        measuring = threads.submit(
            measure, server.base_url, folder, "--model", "m", "--rate", "20", "--requests", "40",
            "--warmup", "10", "--check", "duration p95 1s",
            under=("chrt", "--idle", "0", "taskset", "-c", str(processor)),
        )  # fmt: skip
        # In this class its start and its summary would take more than a minute.
        _await_chats(server, 1)
        with _busy_processor(processor):
            _await_chats(server, 50)
        return measuring.result()


def _await_chats(server: ScriptedServer, chats: int) -> None:
    """Wait until the server has got this many chats, and the question for its models."""
    deadline_s = time.monotonic() + _DEADLINE_S
    while len(server.served_requests(timeout_s=0)) < chats + 1:
        assert time.monotonic() < deadline_s, "the generator did not send its chats"
        time.sleep(0.005)
