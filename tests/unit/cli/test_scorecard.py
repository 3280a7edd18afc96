"""``latspan scorecard``: tables for a reader, JSON for a script, one error for a mistake."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from latspan import semconv
from latspan._base.clock import ManualClock
from latspan._model.goals import Preset, preset_path, toml_of
from latspan._model.metrics import MetricValue
from latspan._model.recording import Recorder, RequestRecord, write_interval
from latspan._model.recording.folder import RecordFile, begin_recording
from latspan._model.segments import Kind, Outcome, Segment
from latspan.cli import main
from latspan.histogram import HistogramLogWriter
from support.schemas import validated

MS: Final = 1_000_000
MONDAY_NS: Final = 1_795_392_000 * 10**9
"""2026-11-23."""
WEEK_NS: Final = 7 * 86_400 * 10**9
DATA: Final = Path(__file__).parents[2] / "data"
GOLDEN: Final = Path(__file__).parent / "golden" / "scorecard.txt"
GUIDE: Final = Path(__file__).parents[3] / "docs" / "guides" / "scorecard.md"


def call(
    number: int,
    *,
    week: int = 0,
    outcome: Outcome = Outcome.COMPLETED,
    ttft_ms: int = 300,
    ratio: float = 1,
) -> RequestRecord:
    duration_ns = (1_000 + number) * MS
    return RequestRecord(
        name="chat m",
        kind=Kind.CALL,
        outcome=outcome,
        start_epoch_ns=MONDAY_NS + week * WEEK_NS + number * 1_000 * MS,
        duration_ns=duration_ns,
        segments=(Segment("decode", 0, duration_ns),),
        metrics={
            "duration": MetricValue(duration_ns),
            "time_to_first_token": MetricValue(ttft_ms * MS),
        },
        attributes={"inference_path": "chat"},
        ratio=ratio,
        details={semconv.LATSPAN_LOAD_PHASE: "measured"},
    )


def record_into(folder: Path, *records: RequestRecord, unsent: int = 0) -> None:
    manifest = begin_recording(folder, source="measure")
    manifest.update(measurement={"steps": [{"unsent": unsent}]})
    file = RecordFile(folder)
    file.begin()
    for each in records:
        file.append(each)
    file.end()


def log_into(path: Path, *records: RequestRecord) -> None:
    recorder = Recorder(ManualClock(), keep=0)
    for each in records:
        recorder.record(each)
    snapshot = replace(
        recorder.snapshot(), start_epoch_ns=MONDAY_NS, end_epoch_ns=MONDAY_NS + 10**10
    )
    with HistogramLogWriter(path) as writer:
        write_interval(writer, snapshot)


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two load tests of chat in two weeks: the second one is slower and has timeouts."""
    monkeypatch.chdir(tmp_path)
    Path("chat.toml").write_text(toml_of(preset_path("chat", Preset.CHAT)))
    folder = tmp_path / "recordings"
    folder.mkdir()
    record_into(folder / "one", *(call(number) for number in range(60)))
    record_into(
        folder / "two",
        *(call(number, week=1, ttft_ms=600 if number % 4 == 0 else 300) for number in range(56)),
        *(call(number, week=1, outcome=Outcome.TIMEOUT) for number in range(56, 60)),
        unsent=4,
    )
    return folder


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["scorecard", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    return validated(json.loads("\n".join(shown(capsys, *arguments, "--json"))))


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["scorecard", *arguments]) == 2
    return capsys.readouterr().err.splitlines()


def test_the_tables_show_weeks_months_targets_and_the_rules(
    recordings: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a reader sees, word for word."""
    monkeypatch.setenv("COLUMNS", "100")
    text = "\n".join(shown(capsys, str(recordings), "--target", "chat"))

    assert text == GOLDEN.read_text(encoding="utf-8").rstrip()
    assert f"```text\n{text}\n```" in GUIDE.read_text(encoding="utf-8")


def test_the_document_has_every_figure(
    recordings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times in nanoseconds, ratios as fractions."""
    (card,) = document(capsys, str(recordings), "--target", "chat", "--period", "week")["cards"]
    first, second = card["periods"]

    assert (card["group"], card["kind"], card["side"]) == ("chat", "call", "client")
    assert (first["cycle"], first["label"], first["start_epoch_ns"]) == (
        "week",
        "2026-W48",
        MONDAY_NS,
    )
    assert first["verdicts"] == [
        {
            "metric": "time_to_first_token",
            "percentile": 95.0,
            "verdict": "met",
            "requests": 60,
            "misses": 0,
            "needed": 0,
            "undecided": 0,
        }
    ]
    assert second["outcomes"] == {"completed": 56, "timeout": 4}
    assert (second["requests"], second["unsent"]) == (64, 4)
    assert second["timeouts"]["count"] == 4
    assert second["metrics"]["duration"]["p95"] is None
    assert second["metrics"]["duration"]["unbounded"] == ["p95"]
    assert second["metrics"]["duration"]["failed"] == 4
    assert second["attainment"]["count"] == 42
    assert second["verdicts"][0]["verdict"] == "missed"


def test_given_up_requests_are_shown_as_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """10 of 60 callers gave up: the p95 is at least what they waited, and nobody knows more."""
    left = [call(number, outcome=Outcome.CANCELLED) for number in range(50, 60)]
    record_into(tmp_path / "one", *(call(number) for number in range(50)), *left)

    (card,) = document(capsys, str(tmp_path / "one"), "--period", "week")["cards"]
    text = "\n".join(shown(capsys, str(tmp_path / "one"), "--period", "week"))

    duration = card["periods"][0]["metrics"]["duration"]
    assert (duration["count"], duration["cut"], duration["p95"]) == (60, 10, None)
    assert duration["at_least"] == {"p95": pytest.approx(1_056 * MS, rel=0.001)}
    assert "≥ 1,056.0 ms (cut 17 %)" in text


def test_histogram_logs_traces_and_reports_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each by its form, alone or together in a folder."""
    log_into(tmp_path / "a.hlog", *(call(number) for number in range(3)))
    for name in ("collector-0.159.0.jsonl", "guidellm-0.8.1.json"):
        (tmp_path / name).write_bytes((DATA / name).read_bytes())

    def counts(*paths: Path) -> dict[tuple[str, str | None], int]:
        cards = document(capsys, *map(str, paths), "--period", "month")["cards"]
        return {
            (card["kind"], card["group"]): sum(each["requests"] for each in card["periods"])
            for card in cards
        }

    of_log = {("call", "chat"): 3}
    of_traces = {("request", None): 3}
    of_report = {("call", None): 4}
    assert counts(tmp_path / "a.hlog") == of_log
    assert counts(tmp_path / "collector-0.159.0.jsonl") == of_traces
    assert counts(tmp_path / "guidellm-0.8.1.json") == of_report
    assert counts(tmp_path) == of_log | of_traces | of_report


def test_an_unrelated_file_of_a_folder_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note names it; if the folder has nothing else, that is an error."""
    (tmp_path / "package.json").write_text("{}")
    assert main(["scorecard", str(tmp_path)]) == 4
    assert "package.json has no OTLP/JSON" in capsys.readouterr().err

    log_into(tmp_path / "a.hlog", *(call(number) for number in range(3)))
    notes = document(capsys, str(tmp_path))["notes"]
    assert any("package.json is skipped" in each for each in notes)


def test_a_sampled_recording_is_counted_by_its_histograms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They have every request; the lines are a sample."""
    record_into(tmp_path / "one", call(0, ratio=1))
    lines = next((tmp_path / "one").glob("requests-*"))
    lines.write_text(lines.read_text().removesuffix("}\n") + ',"ratio":0.5}\n')
    log_into(tmp_path / "one" / "a.hlog", *(call(number) for number in range(7)))

    (card,) = document(capsys, str(tmp_path / "one"), "--period", "week")["cards"]

    assert card["periods"][0]["requests"] == 7


def test_a_sampled_recording_of_a_killed_process_is_counted_by_its_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its histograms lack its last requests."""
    record_into(tmp_path / "one", call(0, ratio=1))
    lines = next((tmp_path / "one").glob("requests-*"))
    lines.write_text(lines.read_text().removesuffix("}\n") + ',"ratio":0.125}\n')
    lines.rename(lines.with_name(lines.name.replace(".ended", "")))
    log_into(tmp_path / "one" / "a.hlog", *(call(number) for number in range(7)))

    (card,) = document(capsys, str(tmp_path / "one"), "--period", "week")["cards"]

    assert card["periods"][0]["requests"] == 8


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ["nowhere"],
            "error: cannot read nowhere: No such file or directory",
            "hint: use the path of a recording, a .hlog file or a file of OTLP/JSON traces",
        ),
        (
            ["empty"],
            "error: nothing to read in the folder empty",
            "hint: a scorecard reads recordings, *.hlog files and OTLP/JSON files",
        ),
        (
            ["recordings", "--target", "caht"],
            "error: no file caht.toml",
            "hint: latspan init caht writes one",
        ),
        (
            ["recordings", "--target", "chat", "--by", "model"],
            "error: --target and --by cannot be used together",
            "hint: a target belongs to an inference path, so leave --by out",
        ),
        (
            ["recordings", "--where", "model=gpt"],
            "error: no request was counted",
            "hint: check --where and --kind: the sources have other requests",
        ),
    ],
)
def test_a_mistake_is_one_error(
    arguments: list[str],
    message: str,
    hint: str,
    recordings: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the way out."""
    Path("empty").mkdir()

    assert failed(capsys, *arguments) == [message, hint]
