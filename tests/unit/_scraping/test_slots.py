"""The number of running requests is read from llama.cpp's slots page."""

from __future__ import annotations

import json

import pytest

from latspan import semconv
from latspan._scraping._slots import read_slots


@pytest.mark.parametrize(("working", "expected"), [([True, False, True], 2), ([False], 0), ([], 0)])
def test_busy_slots_are_counted(working: list[bool], expected: int) -> None:
    """Other fields of a slot are not read."""
    page = json.dumps([{"id": at, "is_processing": each} for at, each in enumerate(working)])

    assert read_slots(page).gauges == {semconv.LATSPAN_REQUESTS_RUNNING: expected}


@pytest.mark.parametrize(
    "page",
    [
        "[",
        "{}",
        "[1]",
        '[{"id": 0}]',
        '[{"is_processing": 1}]',
        '{"error": {"code": 501}}',
        "[" * 100_000,
        '{"is_processing": true}',
    ],
    ids=lambda page: page[:24],
)
def test_anything_but_a_list_of_slots_is_refused(page: str) -> None:
    """For example, an error in JSON."""
    with pytest.raises(ValueError, match=r"."):
        read_slots(page)
