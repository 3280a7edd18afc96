"""Programs on uvloop: the same answers, one call each, and a blocked loop is the loop's time."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

import pytest

from latspan.integrations import Outcome
from latspan.testing import _capture, capture
from tests.clients.contract import conftest
from tests.clients.contract.clients import CLIENTS, Client
from tests.clients.contract.conftest import Program, switched_off, without_trace_context
from tests.clients.contract.ways import EACH_WAY, went
from tests.clients.test_a_blocked_loop_is_not_the_servers_time import (
    BLOCK_MS,
    CALLS,
    EACH_CLIENT,
    ClientOf,
    calls,
)
from tests.support.stillness import when_still

uvloop: Any = pytest.importorskip("uvloop", reason="uvloop is not installed")

_switched_on = conftest._switched_on  # pyright: ignore[reportPrivateUsage] - found by its name

_PERIOD_MS: Final = 10
"""Period of the timer: a block may begin that long before the tick that is late."""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch event loops, which other tests do not."""
    monkeypatch.setattr(_capture, "watches_loops", True)


@pytest.mark.parametrize(
    "client", [each for each in CLIENTS if each.asynchronous], ids=lambda client: client.name
)
@EACH_WAY
def test_results_and_bytes_are_the_same_with_and_without(
    client: Client, program: Program, outcome: Outcome
) -> None:
    """As on asyncio's own loop."""
    with switched_off():
        bare = went(client, program, uvloop.run)
    with capture() as seen:
        saw, (sent,) = went(client, program, uvloop.run)
    assert (saw, [without_trace_context(sent)]) == bare
    assert [record.outcome for record in seen.records] == [outcome]


@pytest.mark.alone
@pytest.mark.usefixtures("watched")
@EACH_CLIENT
def test_a_block_is_a_segment_of_the_calls_that_it_delays(client: ClientOf) -> None:
    """Timers run before sockets there, and after them in asyncio's own loop."""
    seen = when_still(
        lambda: calls(client, block_ms=BLOCK_MS, latest_ms=10, at_once=2, runs=uvloop.run)
    )

    delayed_ms = seen.times_ms("event_loop")
    assert len(delayed_ms) >= seen.surely_delayed > CALLS // 2
    block_ms = median(block.duration_ms for block in seen.blocks)
    assert block_ms - _PERIOD_MS < median(delayed_ms) < block_ms + _PERIOD_MS


@pytest.mark.alone
@pytest.mark.usefixtures("watched")
@EACH_CLIENT
def test_without_a_block_there_is_no_such_segment(client: ClientOf) -> None:
    """Nothing but the call itself runs on the loop; other programs may delay a few."""
    seen = when_still(lambda: calls(client, block_ms=0, latest_ms=10, runs=uvloop.run))

    assert len(seen.times_ms("event_loop")) <= CALLS // 10
