"""A sweep as a table and as a document, and the plan of one."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from latspan._study.compare import runs_of_baseline
from latspan._study.render.sweep import PlannedRow, SweepPlanTable, SweepReport
from latspan._study.render.sweep_json import kept_document, sweep_document
from support.schemas import validated
from support.sweeps import judged, runs


def _text(shown: SweepReport | SweepPlanTable) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=100, highlight=False).print(shown, crop=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_latency_and_inputs_are_side_by_side(tmp_path: Path) -> None:
    """A path that drifted has a sentence; the others have only their row."""
    pinned = runs(tmp_path / "pinned", prompt=80, conditions={"temperature": 0})
    calm = judged(tmp_path / "calm", pinned=pinned, previous=pinned)
    slow = judged(tmp_path / "slow", 300, pinned=pinned)
    report = SweepReport([calm, slow], {"broken": "no endpoint"}, ["A note."], {"chat": 1_200})
    head, first, second, blank, *rest = _text(report)
    assert " ".join(head.split()) == (
        "path requests finding target goal now baseline previous input output cached inputs that"
        " changed"
    )
    assert " ".join(first.split()) == (
        "chat 1,200 no drift met p95 time_to_first_token 110.0 ms +0.0% no worse +0.0% no worse"
        " 100 (+25%) 10 (+0%) — temperature"
    )
    assert second.split()[:4] == ["chat", "1,200", "drift", "met"]
    assert "none" in second.split()
    assert blank == ""
    assert rest[0].startswith("chat: drift. Against the baseline: p95 time_to_first_token is worse")
    assert rest[-2:] == ["broken: not measured: no endpoint", "A note."]


def test_documents_follow_the_schema(tmp_path: Path) -> None:
    """The kept one has the runs instead of the comparisons."""
    found = judged(tmp_path / "now", pinned=runs(tmp_path / "pinned"))
    arguments: dict[str, Any] = {"errors": {"x": "y"}, "notes": ["z"], "interrupted": False}
    document: Any = sweep_document([found], traffic=None, **arguments)
    validated(document)
    assert document["paths"][0]["baseline"]["comparison"]["schema"] == "latspan.comparison/1"
    kept: Any = kept_document(found, interrupted=True)
    validated(kept)
    (path,) = kept["paths"]
    assert path["baseline"]["comparison"] is None
    again = runs_of_baseline(json.loads(json.dumps(path["runs"])), "the sweep")
    assert [each.units for each in again] == [120, 120, 120]


def test_a_plan_states_how_long_it_takes() -> None:
    """As far as that is known."""
    row: dict[str, Any] = {"load": {"concurrency": 4}, "requests": 60}
    rows = [
        PlannedRow(name="chat", traffic=12, last="2026-03-02", changed=(), seconds=4_000, **row),
        PlannedRow(name="new", traffic=None, last=None, changed=None, seconds=None, **row),
    ]
    lines = [
        " ".join(each.split()) for each in _text(SweepPlanTable(rows, 3, {"x": "no endpoint"}))
    ]
    assert lines == [
        "sweep, 3 runs of each path",
        "path traffic load requests time last result changed since",
        "chat 12 4 in flight (closed loop) 3 x 60 1 h 7 min 2026-03-02 nothing",
        "new — 4 in flight (closed loop) 3 x 60 unknown — —",
        "in all: about 1 h 7 min and 1 path whose time is not known yet",
        "x: cannot be measured: no endpoint",
    ]


def test_a_narrow_terminal_shows_everything_within_its_width(tmp_path: Path) -> None:
    """What has no column there is one line per path; a file has the whole table."""
    pinned = runs(tmp_path / "pinned", prompt=80, conditions={"temperature": 0})
    name = "summarize-the-conversation-of-a-customer-in-ten-words"
    slow = judged(tmp_path / "slow", 300, pinned=pinned, previous=pinned)
    calm = replace(judged(tmp_path / "calm", pinned=pinned, previous=pinned), name=name)
    report = SweepReport([slow, calm], traffic={"chat": 1_200, name: 3})
    for width in (80, 100, 120, 300):
        out = io.StringIO()
        Console(file=out, width=width, force_terminal=True, highlight=False).print(
            report, crop=False
        )
        plain = Text.from_ansi(out.getvalue()).plain
        lines = [line.rstrip() for line in plain.splitlines()]
        assert max(map(len, lines)) <= width
        for word in ("drift", "+183.7% worse", "100 (+25%)", "temperature", "time_to_first_token"):
            assert word in plain, f"{word} is missing at {width} columns"
    assert "inputs that changed" in plain.splitlines()[0]
