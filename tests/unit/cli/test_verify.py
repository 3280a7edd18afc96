"""``latspan verify`` on recordings that exist, and its mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latspan.cli import main
from support.comparisons import recording


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return two folders of three runs; prefill is faster in the second."""
    folders = tmp_path_factory.mktemp("before"), tmp_path_factory.mktemp("after")
    for seed in range(3):
        recording(folders[0] / f"run-{seed}", seed)
        recording(folders[1] / f"run-{seed}", 50 + seed, factors={"prefill": 0.3})
    return str(folders[0]), str(folders[1])


def answers(folder: Path, name: str, wrong: int) -> str:
    """Write 100 answers, of which the first ones are wrong."""
    rows = [{"id": str(each), "answer": "no" if each < wrong else "yes"} for each in range(100)]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(folder / name)


def test_recordings_are_judged(sides: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as Markdown, with what the lever may hurt."""
    command = ["verify", "--lever", "prefix-cache", "--recorded", *sides, "--goal", "p95 ttft"]
    assert main(command) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "verdict: improved" in text
    assert "prefix-cache may hurt memory" in text
    assert main([*command, "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("## prefix-cache: improved\n")


def test_worse_answers_fail_the_change(
    sides: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, although it is faster."""
    items = tmp_path / "items.jsonl"
    rows = [{"id": str(each), "expected": "yes"} for each in range(100)]
    items.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    files = answers(tmp_path, "before.jsonl", 2), answers(tmp_path, "after.jsonl", 30)
    command = ["verify", "--lever", "prefix-cache", "--recorded", *sides, "--goal", "p95 ttft"]
    assert main([*command, "--items", str(items), "--answers", *files, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "latspan.verification/1"
    assert found["judgement"] == "worse"
    assert found["comparison"]["judgement"] == "improved"
    assert found["quality"]["judgement"] == "dropped"
    assert len(found["quality"]["worse"]) == 28


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "--lever is missing"),
        (["--lever", "modle"], "no lever 'modle'"),
        (["--lever", "other"], "what to measure is missing"),
        (["app:f", "--lever", "other"], "nothing would be changed"),
        (["app:f", "--lever", "other", "--after-command", "true"], "--before-command is missing"),
        (["app:f", "--lever", "other", "--after-options", "'x"], "close every quote"),
        (["app:f", "--lever", "other", "--after-options", "x", "--runs", "1"], "too few"),
        (["--lever", "other", "--recorded", "a", "a"], "are the same"),
        (["--lever", "other", "--items", "x"], "belong together"),
    ],
)
def test_a_mistake_is_explained(
    capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    """Before anything is measured."""
    assert main(["verify", *arguments]) == 2
    text = capsys.readouterr().err
    assert error in text
    assert "hint:" in text


def test_levers_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """With what they may hurt."""
    assert main(["verify", "--levers"]) == 0
    assert "may hurt the quality of the answers" in capsys.readouterr().out
