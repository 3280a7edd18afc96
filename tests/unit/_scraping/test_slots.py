"""llama.cpp's slots say how many requests are worked on."""

from __future__ import annotations

import json

import pytest

from latspan import semconv
from latspan._scraping._slots import read_slots


@pytest.mark.parametrize(("working", "expected"), [([True, False, True], 2), ([False], 0), ([], 0)])
def test_slots_that_work_are_counted(working: list[bool], expected: int) -> None:
    """What else a slot says is nobody's business."""
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
def test_what_is_no_list_of_slots_is_refused(page: str) -> None:
    """An error in JSON for one."""
    with pytest.raises(ValueError, match=r"."):
        read_slots(page)
