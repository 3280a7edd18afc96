"""``latspan capacity``: what it prints, its exit codes, and how it finds a ladder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from latspan.cli import main
from support.queues import System, write_ladder
from support.schemas import validated

_SYSTEM = System("queue", 4)
_TOML = """\
name = "chat"
[traffic]
arrivals = "poisson"
rate_per_s = 0.8
[[target]]
metric = "duration"
percentile = 90
limit_ms = 6000
"""


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the recording of a ladder of M/M/4, in ``recordings`` of a folder of its own."""
    folder = tmp_path_factory.mktemp("home") / "recordings" / "chat-20261124-101112"
    folder.parent.mkdir()
    rungs = [_SYSTEM.rung(rate, number, 800) for number, rate in enumerate((0.5, 1, 1.7, 2.4, 6))]
    write_ladder(folder, rungs)
    return str(folder)


def _found(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the document."""
    code = main(["capacity", *arguments, "--json"])
    return code, validated(json.loads(capsys.readouterr().out))


def test_a_ladder_is_one_document(ladder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the rungs, the capacity, the knee, headroom, projections and their check."""
    code, found = _found(capsys, ladder, "--rate", "3,2.4", "--current", "1")
    assert code == 0
    assert found["schema"] == "latspan.capacity/1"
    assert found["goal"] == {"metric": "duration", "percentile": 99, "limit_s": None}
    assert [each["saturated"] for each in found["rungs"]] == [False] * 4 + [True]
    assert found["capacity"]["low_per_s"] < 4 < found["capacity"]["high_per_s"]
    assert found["knee"]["from"] == "model"
    assert found["headroom"]["times"] == pytest.approx(0.8 * found["capacity"]["per_s"])
    assert [each["label"] for each in found["projections"]] == ["measured", "extrapolated"]
    assert found["projections"][1]["low_s"] < found["projections"][1]["high_s"]
    assert found["held_out"]["rate_per_s"] == 2.4
    assert found["refusal"] is None


@pytest.mark.repetitive
def test_a_terminal_shows_a_plot(ladder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line per load in ascending order, each with its label and a bar, and what follows."""
    assert main(["capacity", ladder, "--rate", "3,20"]) == 3
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0].startswith("chat: p99 duration against offered load, 5 rungs with 4,000 calls")
    assert "log scale" in lines[1]
    assert [line.split()[0] for line in lines[2:9]] == [
        "0.5/s", "1/s", "1.7/s", "2.4/s", "3/s", "6/s", "20/s"
    ]  # fmt: skip
    assert "●" in lines[2]
    assert "extrapolated" in lines[6]
    assert "●" not in lines[6]
    assert lines[7].endswith(">")
    assert "refused" in lines[8]
    for name in ("capacity ", "knee ", "headroom ", "hold-out "):
        assert f"\n  {name}" in shown
    assert "no projection: from" in shown
    assert "hint: " in shown


@pytest.mark.repetitive
@pytest.mark.parametrize(
    ("limit_ms", "code"), [("1000000", 0), ("4000", 3), ("100", 1)], ids=["met", "open", "missed"]
)
def test_the_exit_code_judges_the_upper_end(
    ladder: str, limit_ms: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Met at the upper end, missed at the lower one, or not known."""
    arguments = (ladder, "--rate", "3", "--goal", f"p90 duration <= {limit_ms}ms")
    assert _found(capsys, *arguments)[0] == code


@pytest.mark.repetitive
def test_a_name_is_its_newest_ladder(
    ladder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the target and the load of the inference path's file."""
    home = Path(ladder).parents[1]
    monkeypatch.chdir(home)
    (home / "chat.toml").write_text(_TOML, "utf-8")
    code, found = _found(capsys, "chat")
    assert code == 0
    assert found["goal"] == {"metric": "duration", "percentile": 90, "limit_s": 6}
    assert found["headroom"]["current_per_s"] == 0.8


def test_a_name_without_a_ladder_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hint measures one."""
    monkeypatch.chdir(tmp_path)
    assert main(["capacity", "chat"]) == 2
    shown = capsys.readouterr().err
    assert "there is no ladder of 'chat' in recordings/" in shown
    assert "hint: latspan measure chat --rate 1 --ladder" in shown


def test_a_recording_that_is_no_ladder_is_exit_code_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It cannot be interpreted as one."""
    folder = tmp_path / "one"
    write_ladder(folder, [_SYSTEM.rung(1, 1, 120)])
    assert main(["capacity", str(folder)]) == 4
    assert "a ladder has at least two" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--goal", "p95 tpot"), "cannot be projected to another load"),
        (("--goal", "fast"), "'fast' is not a goal"),
    ],
)
def test_a_goal_is_a_time_that_depends_on_the_load(
    ladder: str, options: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Anything else is an error of the command line."""
    assert main(["capacity", ladder, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["0", "-1", "many", "1,,2"])
def test_a_rate_is_a_number_above_zero(
    ladder: str, rate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused before the recording is read."""
    with pytest.raises(SystemExit) as caught:
        main(["capacity", ladder, f"--rate={rate}"])
    assert caught.value.code == 2
    assert "--rate" in capsys.readouterr().err


@pytest.mark.repetitive
def test_a_narrow_terminal_has_the_plot_below_the_numbers(
    ladder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left out, and no line is wider than the terminal."""
    # rich takes stdout for a terminal, without colours.
    for name, value in {"FORCE_COLOR": "1", "TERM": "dumb", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    assert main(["capacity", ladder, "--rate", "3,20"]) == 3
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "of capacity" in shown
    assert "log scale" in shown
    assert "●" in shown
    assert len(re.findall(r"^ +0\.5/s ", shown, re.MULTILINE)) == 2
