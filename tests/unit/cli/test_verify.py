"""``latspan verify`` on recordings that exist, and its mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latspan._study.verify import LEVERS
from latspan.cli import main
from support.comparisons import ENDPOINT, recording
from support.schemas import validated


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
    """As text and as Markdown, with what the lever may worsen."""
    command = ["verify", "--lever", "prefix-cache", "--recorded", *sides, "--goal", "p95 ttft"]
    assert main(command) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "verdict: improved" in text
    assert "prefix-cache may worsen the memory use" in text
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
    found = validated(json.loads(capsys.readouterr().out))
    assert found["schema"] == "latspan.verification/1"
    assert found["judgement"] == "worse"
    assert found["comparison"]["judgement"] == "improved"
    assert found["quality"]["judgement"] == "dropped"
    assert len(found["quality"]["worse"]) == 28


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "what to measure is missing"),
        (["app:f"], "--lever is missing"),
        (["app:f", "--lever", "modle"], "no lever 'modle'"),
        (["--lever", "other"], "what to measure is missing"),
        (["app:f", "--lever", "other"], "nothing would be changed"),
        (["app:f", "--lever", "other", "--after-command", "true"], "--before-command is missing"),
        (["app:f", "--lever", "other", "--after-options", "'x"], "close every quote"),
        (["app:f", "--lever", "other", "--after-options", "x", "--runs", "1"], "too few"),
        (["--lever", "other", "--recorded", "a", "a"], "are the same"),
        (["app:f", "--lever", "other", "--items", "x"], "belong together"),
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


@pytest.mark.parametrize(
    ("item", "margin", "error"),
    [
        ('{"id": 1, "scorer": "nosuch", "expected": "x"}', "0.05", "names no scorer"),
        ('{"id": 1, "expected": "x"}', "1e-300", "a margin of 1e-300"),
    ],
)
def test_a_mistake_in_the_evaluation_set_is_found_before_the_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], item: str, margin: str, error: str
) -> None:
    """The command of the quality does not run either."""
    (tmp_path / "items").write_text(item, "utf-8")
    ran = tmp_path / "ran"
    command = [
        *("verify", "app:f", "--lever", "other", "--runs", "2", "-o", str(tmp_path / "runs")),
        *("--before-command", f"touch {ran}", "--after-command", f"touch {ran}"),
        *("--items", str(tmp_path / "items"), "--quality-margin", margin),
        *("--quality-command", f"touch {ran} {{answers}}"),
    ]
    assert main(command) == 2
    assert error in capsys.readouterr().err
    assert not ran.exists()


def test_levers_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """With what they may worsen."""
    assert main(["verify", "--levers"]) == 0
    assert "may worsen the quality of the answers" in capsys.readouterr().out


@pytest.fixture
def named(
    sides: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """Return the two folders, with which a file chat.toml of the same endpoint is verified."""
    monkeypatch.chdir(tmp_path)
    main(["init", "chat"])
    file = tmp_path / "chat.toml"
    text = file.read_text("utf-8").replace('endpoint = ""', f'endpoint = "{ENDPOINT}"')
    file.write_text(text.replace("limit_ms = 500", "limit_ms = 1", 1), "utf-8")
    return sides


def test_the_limit_of_the_file_is_judged(
    named: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever targets the recordings had, or none."""
    capsys.readouterr()
    command = ["verify", "chat", "--lever", "prefix-cache", "--recorded", *named, "--json"]
    main(command)
    found = json.loads(capsys.readouterr().out)
    assert found["comparison"]["goal"]["limit_s"] == 0.001
    assert found["comparison"]["target"]["verdict"] == "missed"
    assert list((tmp_path / "results" / "chat").glob("*-verify.json"))


@pytest.mark.parametrize(
    ("options", "limit_s"),
    [
        (("--goal", "p95 ttft <= 2s"), 2),
        (("--goal", "ttft p95", "--limit-ms", "3000"), 3),
        (("--limit-ms", "4000"), 4),
    ],
)
def test_a_limit_on_the_command_line_replaces_that_of_the_file(
    named: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    limit_s: float,
) -> None:
    """It is in the goal or next to it."""
    capsys.readouterr()
    command = ["verify", "chat", "--lever", "prefix-cache", "--recorded", *named, "--json"]
    main([*command, *options])
    found = json.loads(capsys.readouterr().out)
    assert found["comparison"]["goal"]["limit_s"] == limit_s


def test_recordings_of_another_system_are_no_result_of_the_file(
    named: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names both, and how to judge the recordings alone."""
    text = (tmp_path / "chat.toml").read_text("utf-8")
    (tmp_path / "chat.toml").write_text(text.replace(ENDPOINT, "http://other:1/v1"), "utf-8")
    assert main(["verify", "chat", "--lever", "prefix-cache", "--recorded", *named]) == 2
    error = capsys.readouterr().err
    assert f"is of {ENDPOINT}, and chat.toml has the endpoint http://other:1/v1" in error
    assert not (tmp_path / "results").exists()


def test_levers_fit_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file has one line per lever."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["verify", "--levers"]) == 0
    in_file = capsys.readouterr().out
    assert len(in_file.splitlines()) == len(LEVERS)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["verify", "--levers"]) == 0
    on_terminal = capsys.readouterr().out
    assert max(map(len, on_terminal.splitlines())) <= 80
    assert on_terminal.split() == in_file.split()
