"""``latspan demo --agent``: the report of an agent's runs ends with the tool that is slow."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from support.stillness import when_still

pytest.importorskip("openai")

RUNS = 24


def demo(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "latspan", "demo", "--agent", "--scripted", *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_has_the_agents_steps_and_its_segments_sum_to_its_duration() -> None:
    """Two calls with two tools between them, in each run."""
    document: Any = json.loads(demo("--json", "--requests", "4"))

    assert document["kind"] == "request"
    assert len(document["requests"]) == 4
    for request in document["requests"]:
        assert [(step["kind"], step["name"]) for step in request["steps"]] == [
            ("call", "chat smollm2-135m"),
            ("stage", "search"),
            ("stage", "calculate"),
            ("call", "chat smollm2-135m"),
        ]
        lengths = {each["name"]: each["duration_ns"] for each in request["segments"]}
        assert sum(lengths.values()) == request["duration_ns"]
        assert lengths["search"] >= 60_000_000
        assert lengths["calculate"] >= 20_000_000


@pytest.mark.alone
def test_the_slow_tool_is_named() -> None:
    """One search in four takes 1.5 s: the report ends in this, and in what to do."""
    pytest.importorskip("rich")
    pytest.importorskip("numpy")
    report = " ".join(when_still(lambda: demo("--requests", str(RUNS))).split())

    assert "of the difference" in report
    assert "the tool 'search'." in report
    assert "The cause, slow_tool, would be refuted" in report
