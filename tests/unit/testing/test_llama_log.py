"""Lines of llama.cpp's log are timed by the logger's own clock."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from latspan.testing._llama import LlamaLog

MS = 1_000_000
MINUTE = 60_000 * MS


def _log(
    monkeypatch: pytest.MonkeyPatch, lines: Sequence[bytes], arrivals_ns: Sequence[int]
) -> LlamaLog:
    instants = iter(arrivals_ns)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(instants))
    log = LlamaLog()
    log.read(lines)
    monkeypatch.undo()
    return log


def test_a_late_line_is_timed_by_the_loggers_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The line with the shortest delay determines the zero of the logger's clock."""
    lines = [b"1.00.000.000 I srv init: one\n", b"1.00.010.000 I srv init: two\n"]
    log = _log(monkeypatch, lines, [MINUTE + 100 * MS, MINUTE + 130 * MS])

    assert [line.instant_ns for line in log.lines()] == [
        MINUTE + 100 * MS,
        MINUTE + 110 * MS,
    ]


def test_a_line_without_a_time_is_timed_by_its_arrival(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tracebacks and banners have no time of their own."""
    log = _log(monkeypatch, [b"Traceback\n", b"0.00.010.000 I x\n"], [7, 20 * MS])

    assert [tuple(line) for line in log.lines()] == [
        (7, "Traceback"),
        (20 * MS, "0.00.010.000 I x"),
    ]


def test_launches_are_found_with_their_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the line with which a slot starts to process is a launch."""
    lines = [
        b"0.00.001.000 I slot get_availabl: id  1 | task -1 | selected slot by LRU\n",
        b"0.00.002.500 I slot launch_slot_: id  1 | task 9 | processing task, is_child = 0\n",
    ]
    log = _log(monkeypatch, lines, [11 * MS, 13 * MS])

    assert log.launches() == [(12 * MS + MS // 2, 9)]


def test_an_empty_log_has_no_lines() -> None:
    assert LlamaLog().lines() == []
