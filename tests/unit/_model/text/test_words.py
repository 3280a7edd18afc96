"""Numbers are formatted so that a small value never becomes zero."""

from __future__ import annotations

import pytest

from latspan._model.segments import SegmentName
from latspan._model.text import GLOSSARY, count, listed, percent, span_of_time
from latspan._model.units import milliseconds


@pytest.mark.parametrize(
    ("value_ns", "said"),
    [
        (49_999, "<0.1 ms"),
        (50_000, "0.1 ms"),
        (1_000_000, "1.0 ms"),
        (2_431_700_000, "2,431.7 ms"),
    ],
)
def test_milliseconds(value_ns: int, said: str) -> None:
    """One decimal; smaller values are shown as less than that."""
    assert said == milliseconds(value_ns)


@pytest.mark.parametrize(
    ("share", "said"),
    [(0, "0 %"), (0.0001, "<1 %"), (0.62, "62 %"), (0.9999, ">99 %"), (1, "100 %")],
)
def test_percent(share: float, said: str) -> None:
    """Only nothing is 0 %, and only everything is 100 %."""
    assert said == percent(share)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (3_600, "1 h"), (4_000, "1 h 7 min")],
)
def test_span_of_time(seconds: float, shown: str) -> None:
    """Whole units, as far as a person who waits needs them."""
    assert span_of_time(seconds) == shown


def test_lists_and_plurals() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert count(1, "gap") == "1 gap"
    assert count(1_000, "gap") == "1,000 gaps"


def test_every_client_segment_is_explained() -> None:
    """A new segment needs an explanation."""
    assert set(SegmentName) == set(GLOSSARY)
