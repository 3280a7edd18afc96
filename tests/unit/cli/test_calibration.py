"""A calibration is found beside a recording, and offered where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from latspan import Recording
from latspan._study.diagnose import lacks_calibration
from latspan._study.diagnose._recordings import calibration_beside
from latspan._study.table import read_table
from latspan.cli import main
from support.measurements import call, load_test, step

pytest.importorskip("rich", reason="the extra study is not installed")

_TRACES = str(Path(__file__).parents[2] / "data" / "collector-0.159.0.jsonl")
_CLOSED: dict[str, Any] = {"load": {"pattern": "closed", "concurrency": 1}}


def _alone(folder: Path, lag_s: float = 0.0) -> Recording:
    """Write a calibration: 100 ms and 1 ms per prompt token, sent late by a lag."""
    calls = [
        call(number, at_ms=2_000 * number, ttft_ms=100 + number, prompt=number, number=0)
        for number in range(1, 41)
    ]
    lags = {"p50": lag_s, "p99": lag_s, "max": lag_s}
    generator = {"dispatch_lag": lags, "loop_lag": dict.fromkeys(lags, 0.0), "busy": 0.1}
    return load_test(folder, calls, [step(intended=40, generator=generator, **_CLOSED)])


def _busy(folder: Path) -> Recording:
    """Write a load test of the same server, in which a tenth of the requests waits."""
    calls = [
        call(
            number,
            at_ms=1_000 * number,
            duration_ms=900 if number % 10 == 0 else 120,
            ttft_ms=900 if number % 10 == 0 else 120,
            prompt=20,
            number=0,
        )
        for number in range(100)
    ]
    return load_test(folder, calls, [step(intended=100)])


def test_diagnose_uses_the_calibration_beside_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without it, the wait is one segment."""
    busy = _busy(tmp_path / "busy")
    main(["diagnose", str(busy.folder), "--goal", "p95 ttft", "--json"])
    before = json.loads(capsys.readouterr().out)
    alone = _alone(tmp_path / "alone")
    main(["diagnose", str(busy.folder), "--goal", "p95 ttft", "--json"])
    after = json.loads(capsys.readouterr().out)
    main(["report", str(busy.folder)])

    assert before["cause"]["name"] == "server_wait"
    assert after["cause"]["name"] == "under_capacity"
    assert f"The calibration is {alone.folder}, a load test at concurrency 1." in after["notes"]
    assert "requests wait for the server to begin" in " ".join(capsys.readouterr().out.split())


def test_a_calibration_is_of_the_same_system(tmp_path: Path) -> None:
    """One of another endpoint, and a damaged neighbour, are left out."""
    busy = _busy(tmp_path / "busy")
    other = _alone(tmp_path / "other").folder / "recording.json"
    manifest = json.loads(other.read_text())
    manifest["conditions"]["measured"] = "elsewhere"
    other.write_text(json.dumps(manifest))
    damaged = _alone(tmp_path / "damaged").folder / "recording.json"
    damaged.write_text("{")
    assert calibration_beside(busy) is None

    alone = _alone(tmp_path / "alone")
    found = calibration_beside(busy)
    assert found is not None
    assert found.folder == alone.folder
    assert calibration_beside(alone) is None


def test_a_calibration_that_cannot_be_read_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its manifest is whole, and its lines are damaged: the recording is diagnosed without it."""
    busy = _busy(tmp_path / "busy")
    alone = _alone(tmp_path / "alone")
    for file in alone.folder.glob("*.jsonl*"):
        file.write_bytes(b"\x00damaged")
    main(["diagnose", str(busy.folder), "--goal", "p95 ttft", "--json"])
    assert json.loads(capsys.readouterr().out)["cause"]["name"] == "server_wait"


@pytest.mark.parametrize(
    ("given", "cause", "note"),
    [
        (False, "server_wait", "is invalid, and not used: requests were sent late"),
        (True, "under_capacity", "is invalid: requests were sent late"),
    ],
)
def test_an_invalid_calibration_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, given: bool, cause: str, note: str
) -> None:
    """One that was found is not used; one that was given is."""
    busy = _busy(tmp_path / "busy")
    alone = _alone(tmp_path / "alone", lag_s=0.5)
    options = ["--calibration", str(alone.folder)] if given else []
    main(["diagnose", str(busy.folder), "--goal", "p95 ttft", "--json", *options])
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["cause"]["name"] == cause
    assert f"The calibration {alone.folder} {note}" in " ".join(diagnosis["notes"])


def test_an_invalid_calibration_of_traces_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rule does not depend on the source of the requests."""
    alone = _alone(tmp_path / "alone", lag_s=0.5)
    main(["diagnose", _TRACES, "--calibration", str(alone.folder), "--json"])
    notes = " ".join(json.loads(capsys.readouterr().out)["notes"])
    assert f"The calibration {alone.folder} is invalid: requests were sent late" in notes


def test_a_calibration_is_offered_once(tmp_path: Path) -> None:
    """To a load test whose server reports nothing, as long as there is none."""
    busy = _busy(tmp_path / "busy")
    table = read_table(busy, ("duration",))
    assert lacks_calibration(busy, table)

    alone = _alone(tmp_path / "alone")
    assert not lacks_calibration(busy, table)
    assert not lacks_calibration(alone, read_table(alone, ("duration",)))
