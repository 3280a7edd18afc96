"""An event loop whose time is a ManualClock: waiting takes no time, and nothing is ever late."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from latspan.testing import ManualClock

_T = TypeVar("_T")


class _Selector(selectors.SelectSelector):
    """Selector that advances a clock instead of waiting."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("the loop would wait for ever")
        self._clock.advance(max(0, math.ceil(timeout * 1e9)))
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__(_Selector(clock))
        self._clock = clock

    def time(self) -> float:
        return self._clock.monotonic_ns() / 1e9


def run_virtually(clock: ManualClock, coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end, on an event loop whose time is that of ``clock``."""
    loop = _Loop(clock)
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()
