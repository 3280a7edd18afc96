"""What a call held is freed when it has ended, and not when Python's collector runs."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from latspan.testing import Captured, Script
from tests.clients.conftest import Driver, with_every_sdk

SCRIPT = Script.chat(tokens=3, prefill_ms=1, gap_ms=1, flavor="plain")


@contextmanager
def _garbage() -> Generator[list[Any]]:
    """Yield what of latspan's is made inside the block and freed by the collector alone."""
    found: list[Any] = []
    gc.collect()
    # What an earlier test left to a thread of its own may end inside the block, and is not of it.
    earlier = {id(each) for each in gc.get_objects()}
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        if any(type(each).__name__ == "Request" for each in gc.garbage):
            pytest.skip("the HTTP library's own request is a cycle, and holds what listens to it")
        found += [
            each
            for each in gc.garbage
            if type(each).__module__.startswith("latspan") and id(each) not in earlier
        ]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@with_every_sdk
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_freed_at_its_end(driver: Driver, seen: Captured, *, stream: bool) -> None:
    """A collector that runs more often is paid for by the application."""

    async def program(client: Any) -> None:
        for _ in range(3):
            answer = await driver.create(client, stream=stream)
            if stream:
                await driver.read(answer)
            del answer
        with _garbage() as found:
            answer = await driver.create(client, stream=stream)
            if stream:
                await driver.read(answer)
            del answer
        assert sorted({type(each).__qualname__ for each in found}) == []

    driver.run(driver.transport(SCRIPT), program)
    assert len(seen.records) == 4
