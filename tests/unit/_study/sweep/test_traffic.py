"""Traffic of inference paths, and the paths with most of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latspan._study.sweep import Traffic, traffic_of
from latspan.errors import UnknownNameError
from support.measurements import call, load_test, step

_TRAFFIC = Traffic({"search": 900, "rag": 80, "chat": 7})


def test_the_path_with_most_requests_is_first() -> None:
    """Paths without requests come last, unless a number of paths is asked for."""
    names = ["chat", "new", "search"]
    assert _TRAFFIC.ranked(names) == ["search", "chat", "new"]
    assert _TRAFFIC.ranked(names, 1) == ["search"]
    assert _TRAFFIC.ranked(names, 5) == ["search", "chat"]


def test_a_path_without_a_file_is_reported() -> None:
    """It may be the one with most requests."""
    assert _TRAFFIC.without_file(["chat", "search"]) == {"rag": 80}


def test_traffic_of_other_paths_is_an_error() -> None:
    """The hint names what the traffic has."""
    with pytest.raises(UnknownNameError) as raised:
        _TRAFFIC.ranked(["new"], 1)
    assert raised.value.hint == "the traffic has: search, rag, chat"


def test_requests_are_counted_as_on_the_scorecard(tmp_path: Path) -> None:
    """Only the measured phase counts, and requests without a path are counted apart."""
    names = ["chat", "search", "search", None]
    records = [
        replace(call(index), attributes={} if name is None else {"inference_path": name})
        for index, name in enumerate(names)
    ]
    warmup = replace(call(9, phase="warmup"), attributes={"inference_path": "chat"})
    load_test(tmp_path / "a", [*records, warmup, warmup], [step(intended=4)])
    found = traffic_of([str(tmp_path / "a")])
    assert (found.requests, found.unnamed) == ({"search": 2, "chat": 1}, 1)
    assert list(found.requests) == ["search", "chat"]
