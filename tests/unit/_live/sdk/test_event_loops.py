"""Event loops are watched only if a setting asks for it, and by one timer for all purposes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import latspan
from latspan._live.instrument import open_call
from latspan._live.operations import ModelCall
from latspan._model.segments import Outcome
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan.testing import ManualClock, _capture, capture


@pytest.fixture(autouse=True)
def _shut_down() -> Iterator[None]:
    yield
    latspan.shutdown()


def _timers() -> int:
    """Return the number of timers that the calls and requests below start on a loop."""

    async def main() -> int:
        call = open_call(operation="chat", provider="openai", model="m", api_format=OPENAI_CHAT)
        assert isinstance(call, ModelCall)
        call.watch_loop()
        with latspan.request("question"):
            scheduled: list[Any] = getattr(asyncio.get_running_loop(), "_scheduled")  # noqa: B009
            timers = len(scheduled)
        call.end(Outcome.COMPLETED)
        return timers

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "timers"),
    [
        ({}, 1),
        ({"monitor_host": True}, 1),
        ({"monitor_host": True, "watch_event_loop": False}, 1),
        ({"watch_event_loop": False}, 0),
    ],
    ids=["by default", "for both", "for the host", "off"],
)
def test_one_timer_runs_if_a_setting_needs_it(settings: dict[str, Any], timers: int) -> None:
    """Calls and requests on a loop share it."""
    latspan.configure(export_enabled=False, **settings)
    assert _timers() == timers


def test_a_test_watches_loops_only_by_the_clock_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clock that a test advances does not show whether the loop runs in time."""
    monkeypatch.setattr(_capture, "watches_loops", True)
    with capture():
        assert _timers() == 1
    with capture(clock=ManualClock()):
        assert _timers() == 0
