"""``latspan verify`` measures both states of a real program in turn, and judges the change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.measuring import skip_if_disturbed
from support.schemas import validated

PROGRAM = """
import time
from pathlib import Path

import latspan


def answer(prompt):
    with latspan.stage("rerank"):
        time.sleep(float(Path("rerank").read_text()))
    with latspan.stage("write"):
        time.sleep(0.005)
    return "yes"
"""


def verified(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Return exit code, document and messages of a verification of the program."""
    (folder / "app.py").write_text(PROGRAM, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "latspan", "verify", *arguments, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = validated(json.loads(done.stdout)) if done.stdout else {}
    skip_if_disturbed(found, done.stderr)
    return done.returncode, found, done.stderr


@pytest.mark.alone
def test_a_faster_rerank_is_found_and_named(tmp_path: Path) -> None:
    """From 30 to 10 ms: improved, and the segment that explains it is the reranking."""
    code, found, errors = verified(
        tmp_path,
        "app:answer",
        *("--lever", "other", "--runs", "3", "--output", "runs"),
        *("--before-command", "sh -c 'echo 0.03 > rerank'"),
        *("--after-command", "sh -c 'echo 0.01 > rerank'"),
        *("--options", "--requests 25", "--limit-ms", "10"),
    )
    assert code == 0, found["sentence"]
    assert found["judgement"] == "improved"
    assert found["attributable"]
    comparison = found["comparison"]
    assert comparison["before"]["runs"] == comparison["after"]["runs"] == 3
    assert comparison["explanation"]["leading"] == "rerank"
    assert comparison["target"]["verdict"] == "missed"
    # An invalid run is measured again, under the same number.
    runs = {line.partition(",")[0]: line for line in errors.splitlines() if line[:4] == "run "}
    assert list(runs)[:4] == [
        "run 1 of 6: before",
        "run 2 of 6: after",
        "run 3 of 6: after",
        "run 4 of 6: before",
    ]
    # How long the rest takes is known once both sides had a run.
    assert [" left" in line for line in runs.values()][:4] == [False, False, True, True]
    # The same recordings, and a lever that would show in them.
    code, found, _ = verified(
        tmp_path, "--lever", "connections", "--recorded", "runs/before", "runs/after"
    )
    assert (code, found["judgement"]) == (4, "not_interpretable")
