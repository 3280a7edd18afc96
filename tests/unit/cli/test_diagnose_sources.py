"""``latspan diagnose`` of traces and histogram logs: options, exit codes and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from latspan.cli import main
from support.otlp import free_ports
from support.schemas import validated

DATA: Final = Path(__file__).parents[2] / "data"
TRACES: Final = str(DATA / "collector-0.159.0.jsonl")


def failed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> list[str]:
    assert main(["diagnose", *arguments]) == code
    return capsys.readouterr().err.splitlines()


def test_a_file_of_traces_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Of eleven records, three are requests: too few, and the notes state what is missing."""
    assert main(["diagnose", TRACES, "--json"]) == 3

    document = validated(json.loads(capsys.readouterr().out))
    assert (document["conclusion"], document["units"]) == ("too_few", 3)
    assert document["notes"][0] == "Chunk gaps are missing."


def test_traces_are_divided_too(capsys: pytest.CaptureFixture[str]) -> None:
    """By an attribute that the traces have."""
    assert main(["diagnose", TRACES, "--by", "model", "--json"]) == 3

    document = validated(json.loads(capsys.readouterr().out))
    (group,) = document["groups"]
    assert (group["value"], group["units"], group["notes"]) == ("m", 3, [])


def test_a_limit_in_the_goal_is_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    """Another one next to it is an error."""
    main(["diagnose", TRACES, "--goal", "p95 duration <= 2s", "--json"])
    assert validated(json.loads(capsys.readouterr().out))["goal"]["limit_s"] == 2

    lines = failed(capsys, TRACES, "--goal", "p95 duration <= 2s", "--limit-ms", "500")
    assert "has a limit, and a limit of 500 ms is given next to it" in lines[0]


def test_a_log_without_requests_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that made no call leaves one."""
    path = tmp_path / "a.hlog"
    path.write_text("#[Histogram log format version 1.3]\n")

    lines = failed(capsys, str(path), code=4)

    assert lines == [
        f"error: {path} has no requests and no calls",
        "hint: use a log that latspan wrote, or omit --kind",
    ]


@pytest.mark.parametrize(
    "option", [("--since", "1h"), ("--limit", "0"), ("--header", "X-Scope-OrgID=a")]
)
def test_options_of_a_backend_are_refused_for_a_file(
    option: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """They would have no effect."""
    assert failed(capsys, TRACES, *option) == [
        f"error: {option[0]} only applies to Jaeger and Tempo",
        "hint: use the URL of one of them as SOURCE",
    ]


def test_a_step_is_refused_for_traces(capsys: pytest.CaptureFixture[str]) -> None:
    """Only a load test has steps."""
    assert failed(capsys, TRACES, "--step", "0")[-1] == "hint: omit --step"


@pytest.mark.parametrize("text", ["1", "h", "1y", "-1h", "0s", "nanh", "infd", "1e99d", ""])
def test_a_window_without_a_unit_or_a_length_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error has examples."""
    with pytest.raises(SystemExit) as raised:
        main(["diagnose", "http://127.0.0.1:1", f"--since={text}"])

    assert raised.value.code == 2
    assert "such as 30m, 2h or 1d" in capsys.readouterr().err


def test_a_limit_of_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A zero is a mistake, and not the default."""
    assert "0 traces" in failed(capsys, "http://127.0.0.1:1", "--limit", "0")[0]


def test_a_backend_that_does_not_answer_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    """With the addresses that it may have."""
    (port,) = free_ports(1)

    lines = failed(capsys, f"http://127.0.0.1:{port}")

    assert lines[0].startswith(f"error: http://127.0.0.1:{port} does not answer: ")
    assert lines[1].startswith("hint: use the address of the query API")


def test_a_path_that_does_not_exist_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for a recording."""
    lines = failed(capsys, str(tmp_path / "none"), code=2)

    assert str(tmp_path / "none") in lines[0]
    assert len(lines) == 2
