"""The ``Server-Timing`` header is written, and read from any server."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._model.wire import server_timing


def test_a_written_header_is_read_back() -> None:
    """To the microsecond."""
    told = [("queue", 12_345_600), ("prefill", 0)]
    assert server_timing.written(told) == "queue;dur=12.346, prefill;dur=0.000"
    assert list(server_timing.parsed(server_timing.written(told))) == [
        ("queue", 12.346),
        ("prefill", 0.0),
    ]


def test_names_that_are_not_tokens_are_not_written() -> None:
    """A stage may have any name."""
    assert server_timing.written([("re rank", 1), ("a,b", 1), ("ok", 1_000_000)]) == "ok;dur=1.000"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("", []),
        ("miss", []),
        ("db;dur=53, app;dur=47.2", [("db", 53.0), ("app", 47.2)]),
        ('cache;desc="Cache Read";dur=23.2', [("cache", 23.2)]),
        ('a;desc="x, y;dur=9";dur=1', [("a", 1.0)]),
        ('a;dur="4"', [("a", 4.0)]),
        ('a;desc="x"y;dur=4', [("a", 4.0)]),
        ("a;DUR=4", [("a", 4.0)]),
        ("a; dur = 4 ,b;dur=5", [("a", 4.0), ("b", 5.0)]),
        ("a;dur=1;dur=2", [("a", 1.0)]),
        ("a;dur=nan, b;dur=inf, c;dur=x, d;dur", []),
        ("a;dur=1_000, b;dur=1e3, c;dur=\u0663, d;dur=+1, e;dur=0x1", []),
        ("a;dur=0.30000000000000004", [("a", 0.30000000000000004)]),
        ("a;dur=-1", [("a", -1.0)]),
        ("a;dur=1,,b;dur=2", [("a", 1.0)]),
        ("a;dur=1, b b;dur=2", [("a", 1.0)]),
    ],
)
def test_headers_of_other_servers(value: str, read: list[tuple[str, float]]) -> None:
    """A malformed entry ends the parsing; a malformed number is ignored."""
    assert list(server_timing.parsed(value)) == read


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(value: str) -> None:
    for name, duration_ms in server_timing.parsed(value):
        assert name
        assert duration_ms == duration_ms


def test_a_huge_header_is_read_quickly() -> None:
    """Only its beginning is read."""
    assert len(list(server_timing.parsed("a;dur=1," * 1_000_000))) <= 16_384
    assert list(server_timing.parsed('a;desc="' + "\\" * 1_000_000)) == []


@pytest.mark.parametrize(
    "value",
    [
        "a" + ';b=""' * 3_000 + ";;",
        "a;b=" + " " * 16_000 + ";;",
        "a" + ';b="\\";' * 2_000,
        " " * 16_000 + ";;",
    ],
)
def test_a_hostile_header_is_read_quickly(value: str) -> None:
    """Any server can send it, and it is parsed in the client's process."""
    begun_s = time.process_time()
    assert list(server_timing.parsed(value)) == []
    assert time.process_time() - begun_s < 2
