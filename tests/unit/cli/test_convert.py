"""``latspan convert``: a recording or a table of what another program wrote."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pandas as pd
import pytest

import latspan
from latspan._study.traces import write_parquet
from latspan.cli import main
from support.measurements import call

DATA: Final = Path(__file__).parents[2] / "data"
TRACES: Final = str(DATA / "collector-0.159.0.jsonl")
TEXT: Final = Path(TRACES).read_text()
REPORT: Final = str(DATA / "guidellm-0.8.1.json")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_traces_become_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    """The message and the manifest state what the traces do not have."""
    assert main(["convert", TRACES, "monday"]) == 0

    assert capsys.readouterr().err.splitlines() == [
        "monday: 11 records from otlp",
        "lacks: chunk gaps are missing",
        (
            "lacks: segments without a span, such as retry and consumer, have their time but not"
            " their place"
        ),
        "lacks: segments of no length are missing",
        "skipped: 2 spans of no request or call not used",
    ]
    recording = latspan.open_recording("monday")
    assert recording.manifest["source"] == "convert"
    # The machine that converts did not measure.
    assert recording.conditions == {}
    assert recording.manifest["conversion"]["file"] == "collector-0.159.0.jsonl"
    assert recording.notes[0] == "Converted: chunk gaps are missing."
    snapshot = recording.snapshot()
    assert (snapshot.count(kind="request"), snapshot.count(kind="call")) == (3, 5)
    assert snapshot.segment("queue", kind="call").count() == 3


@pytest.mark.parametrize("arguments", [["monday"], ["table.parquet", "--to", "parquet"]])
def test_spans_that_are_left_out_are_stated(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for a table, which has no place for a note."""
    file = folder / "traces.jsonl"
    file.write_text(re.sub(r'"endTimeUnixNano":"\d+"', '"endTimeUnixNano":"0"', TEXT, count=1))

    assert main(["convert", str(file), *arguments]) == 0

    assert "missing: 1 span was left out: its end is missing" in capsys.readouterr().err


def test_a_report_of_guidellm_becomes_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    """With the conditions under which guidellm measured."""
    assert main(["convert", REPORT, "rival"]) == 0
    recording = latspan.open_recording("rival")

    assert "rival: 4 records from guidellm" in capsys.readouterr().err
    assert recording.conditions["guidellm"] == "0.8.1"
    assert recording.manifest["measurement"]["steps"][0]["intended"] == 4
    assert main(["report", "rival"]) == 0
    assert main(["scorecard", "rival"]) == 0


@pytest.mark.parametrize("from_recording", [False, True])
def test_a_table_has_one_row_per_record(
    from_recording: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a file or from its recording; attributes of several types become text."""
    source = TRACES
    if from_recording:
        main(["convert", TRACES, "monday"])
        source = "monday"

    assert main(["convert", source, "table.parquet", "--to", "parquet"]) == 0

    assert capsys.readouterr().err.splitlines()[-1] == "table.parquet: 11 records"
    table = pd.read_parquet("table.parquet")
    calls = table[table["kind"] == "call"]
    assert len(table) == 11
    assert sorted(calls["outcome"]) == [
        "closed_early",
        "completed",
        "completed",
        "completed",
        "error",
    ]
    assert calls["segment.prefill"].count() == 3
    assert list(table["my.attr"].dropna()) == [0, 1, 2]
    assert "['stop']" in set(calls["gen_ai.response.finish_reasons"])


def test_a_missing_package_is_reported_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a long file is read, with the line that installs it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    assert main(["convert", "nowhere", "table.parquet", "--to", "parquet"]) == 2

    assert capsys.readouterr().err.splitlines() == [
        "error: the package 'pyarrow' is not installed",
        "hint: pip install 'latspan[parquet]'",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (
            ["nowhere", "out"],
            2,
            "error: cannot convert nowhere: No such file or directory",
            "hint: use the path of an existing file, and an output that can be written",
        ),
        (
            ["other.txt", "out"],
            4,
            "error: other.txt is not OTLP/JSON",
            (
                "hint: use a file of the Collector's file exporter in JSON, without compression:"
                " one message with resourceSpans per line"
            ),
        ),
        (
            ["empty.json", "out"],
            4,
            "error: empty.json has no request or call",
            (
                "hint: use a file with latspan's spans, or with inference spans of"
                " OpenTelemetry's GenAI conventions"
            ),
        ),
        (
            [TRACES, "taken"],
            4,
            "error: taken already holds a recording",
            "hint: use another folder, or delete this one first",
        ),
        (
            ["taken", "out"],
            2,
            "error: taken is a recording already",
            "hint: use --to parquet to write a table",
        ),
    ],
)
def test_a_mistake_is_one_error(
    arguments: list[str],
    code: int,
    message: str,
    hint: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And nothing is written."""
    Path("other.txt").write_text("hello\n")
    Path("empty.json").write_text('{"resourceSpans": []}\n')
    main(["convert", TRACES, "taken"])
    capsys.readouterr()

    assert main(["convert", *arguments]) == code

    assert capsys.readouterr().err.splitlines() == [message, hint]
    assert sorted(each.name for each in folder.iterdir()) == ["empty.json", "other.txt", "taken"]


def test_names_that_no_file_can_hold_are_replaced(tmp_path: Path) -> None:
    """A lone surrogate comes from a client that sends any bytes as a name."""
    file = tmp_path / "table.parquet"
    assert write_parquet([replace(call(1), details={"tag.\ud800": "\ud800"})], file) == 1
    table = pd.read_parquet(file)
    assert table["tag.?"].tolist() == ["?"]
