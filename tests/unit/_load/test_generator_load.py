"""The load of the generator itself, on a clock that the test sets."""

from __future__ import annotations

import asyncio

import pytest

from latspan._base.nanoseconds import NS_PER_MS
from latspan._load._generator_load import GeneratorLoad


async def test_the_lag_contains_the_turn_in_which_a_chunk_waits_for_its_reader() -> None:
    """Work that runs between the arrival of a chunk and its reader delays the stamp."""
    now_ns = 0
    load = GeneratorLoad(lambda: now_ns, cpu=lambda: 0)
    now_ns = 50 * NS_PER_MS
    load._sample()  # pyright: ignore[reportPrivateUsage] - what the timer calls
    now_ns = 55 * NS_PER_MS
    await asyncio.sleep(0)
    measured = load.result()
    load.stop()
    assert measured["loop_lag"]["max"] == pytest.approx(0.005)
