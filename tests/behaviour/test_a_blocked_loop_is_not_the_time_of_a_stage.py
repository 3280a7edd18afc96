"""Time in which other tasks blocked the event loop is not a stage's own time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Final

import pytest

import latspan
from latspan._model.segments import totals
from latspan.testing import RequestRecord, Script, ScriptedServer, _capture, capture
from support.stillness import when_still

_PROGRAM: Final = Path(__file__).with_name("programs") / "blocks_its_loop.py"
_DEADLINE_S: Final = 60
_ROUNDS: Final = 5
_WAIT_S: Final = 0.03
_BLOCK_MS: Final = 120


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch event loops, which other tests do not."""
    monkeypatch.setattr(_capture, "watches_loops", True)


def _compute(duration_ms: float) -> None:
    until_s = time.perf_counter() + duration_ms / 1e3
    while time.perf_counter() < until_s:
        pass


async def _retrieve() -> None:
    with latspan.request("answer"), latspan.stage("retrieve"):
        await asyncio.sleep(_WAIT_S)


async def _rerank(block_ms: float) -> None:
    with latspan.request("answer"), latspan.stage("rerank"):
        _compute(block_ms)


async def _block_later(block_ms: float) -> None:
    await asyncio.sleep(_WAIT_S / 3)
    if block_ms:
        _compute(block_ms)


async def _answer(block_ms: float) -> None:
    await _retrieve()
    await _rerank(block_ms)


def _medians_ms(records: tuple[RequestRecord, ...], stage: str) -> dict[str, float]:
    """Return the median time of each segment of a stage, and of the requests around it."""
    found: dict[str, list[float]] = {}
    for record in records:
        if record.name == stage:
            for name, duration_ns, _ in totals(record.segments):
                found.setdefault(name, []).append(duration_ns / 1e6)
    return {name: median(times) for name, times in found.items()}


def _delayed(block_ms: float) -> tuple[RequestRecord, ...]:
    """Return the records of requests that wait while a task without a stage blocks the loop."""

    async def main() -> tuple[RequestRecord, ...]:
        with capture() as seen:
            for _ in range(_ROUNDS):
                await asyncio.gather(_retrieve(), _block_later(block_ms))
            return seen.records

    return asyncio.run(main())


def _together(block_ms: float, at_once: int) -> tuple[RequestRecord, ...]:
    """Return the records of requests that wait for the same instant, and then block the loop."""

    async def main() -> tuple[RequestRecord, ...]:
        with capture() as seen:
            for _ in range(_ROUNDS):
                await asyncio.gather(*(_answer(block_ms) for _ in range(at_once)))
            return seen.records

    return asyncio.run(main())


@pytest.mark.alone
def test_a_block_by_another_task_is_not_the_stages_time() -> None:
    """It is ``event_loop`` of the stage and of its request; both have the stage's own time."""
    records = when_still(lambda: _delayed(_BLOCK_MS))

    for name in ("retrieve", "answer"):
        medians = _medians_ms(records, name)
        # A block may begin up to one period of the timer, 10 ms, before the tick that detects it.
        assert 9 <= medians["retrieve"] <= 45, name
        assert _BLOCK_MS - 15 <= medians["event_loop"] <= _BLOCK_MS + 5, name
    names = {segment.name for record in records for segment in record.segments}
    assert names == {"retrieve", "event_loop", "application"}


@pytest.mark.alone
def test_requests_that_wait_together_are_delayed_by_each_other() -> None:
    """They are ready in the same turn of the loop, before the timer is late."""
    records = when_still(lambda: _together(_BLOCK_MS, at_once=3))

    retrieve = _medians_ms(records, "retrieve")
    assert 30 <= retrieve["retrieve"] <= 45
    # The second and the third wait for one and for two others.
    assert 1.4 * _BLOCK_MS - 15 <= retrieve["event_loop"] <= 1.5 * _BLOCK_MS + 5


@pytest.mark.alone
def test_a_stage_that_blocks_the_loop_itself_has_all_of_its_time() -> None:
    """Also if several such stages follow each other immediately."""
    records = when_still(lambda: _together(_BLOCK_MS, at_once=3))

    rerank = _medians_ms(records, "rerank")
    assert rerank.keys() == {"rerank"}
    assert rerank["rerank"] >= _BLOCK_MS


@pytest.mark.alone
def test_without_a_block_no_stage_has_such_a_segment() -> None:
    """Neither of a single task nor of several; other programs may delay a few."""
    records = when_still(lambda: (*_delayed(0), *_together(0, at_once=3)))

    delayed = [
        record
        for record in records
        if any(segment.name == "event_loop" for segment in record.segments)
    ]
    assert len(delayed) <= len(records) // 10


@pytest.mark.alone
def test_the_report_names_the_event_loop() -> None:
    """Its conclusion does not blame retrieval, which takes 30 ms of each request."""
    script = Script.chat(tokens=5, prefill_ms=20, gap_ms=2)
    ours = ("OTEL_", "LATSPAN_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    with ScriptedServer(script) as server:
        done = subprocess.run(
            [sys.executable, "-m", "latspan", "run", "--report", "--", sys.executable, _PROGRAM],
            env={**kept, "COLUMNS": "100", "OPENAI_BASE_URL": server.base_url},
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=True,
        )

    text = " ".join(done.stderr.split())
    assert "The cause, blocked_event_loop, would be refuted" in text
    assert "pure Python code to another process" in text
