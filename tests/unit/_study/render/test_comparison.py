"""A comparison on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from latspan._study.compare import Question, compare
from latspan._study.render.comparison import ComparisonReport
from latspan._study.render.layout import fitted
from support.comparisons import runs


def _lines(*, width: int, terminal: bool = True) -> list[str]:
    found = compare(
        runs(0, factors={"prefill": 30.0}), runs(50), Question("time_to_first_token", 95)
    )
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=terminal, highlight=False).print(
        ComparisonReport(found), crop=False
    )
    return [line.rstrip() for line in Text.from_ansi(out.getvalue()).plain.splitlines()]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_tables_are_as_wide_as_the_terminal(width: int) -> None:
    """Seconds too; the intervals, the results and what explains the change are always there."""
    lines = _lines(width=width)
    assert max(map(len, lines)) <= width
    goal = next(line for line in lines if "p95" in line and line.startswith("  time"))
    prefill = next(line for line in lines if line.startswith("  prefill") and "explains" in line)
    assert goal.endswith("improved")
    for line in (goal, prefill):
        assert " to -" in line


def test_a_file_receives_the_whole_table() -> None:
    """With the relative change, whatever the width."""
    lines = _lines(width=80, terminal=False)
    heading = next(line for line in lines if "95 % interval" in line)
    assert heading.split() == [
        "metric",
        "before",
        "after",
        "change",
        "95",
        "%",
        "interval",
        "result",
    ]


def test_a_shortened_name_cuts_no_other_cell() -> None:
    """However short the names become, numbers and results are whole."""
    interval = "-49.5% to -35.9%"
    columns = {"metric": [Text("time_to_first_visible_token")], "interval": [Text(interval)]}
    options = Console(width=34, force_terminal=True, file=io.StringIO()).options
    (_, line), _ = fitted(
        columns, left=("metric",), left_out_first=(), names=("metric",), options=options
    )
    assert line.plain.endswith(interval)
    assert line.cell_len <= 34
