"""``latspan histogram`` shows, compares and merges files, and says what it could not read."""

from __future__ import annotations

import io
import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._model.recording import tag_of
from latspan._study.render.histogram_rows import rows_of
from latspan._study.render.histogram_tables import HistogramsTable
from latspan.cli import main
from latspan.histogram import Histogram, HistogramLogWriter, LogTotals, Precision, read_log
from support.schemas import validated

START_NS = 1_763_733_000_123_456_789
DATA = Path(__file__).parents[2] / "data"


def tag(metric: str, **attributes: str) -> str:
    return tag_of(metric, {"kind": "call", "source": "measured", **attributes})


def milliseconds(*values: int) -> Histogram:
    histogram = Histogram()
    histogram.record_many([value * NS_PER_MS for value in values])
    return histogram


def plain(*values: int) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


def write(path: Path, *intervals: dict[str | None, Histogram], start_ns: int = START_NS) -> str:
    with HistogramLogWriter(path) as writer:
        for number, histograms in enumerate(intervals):
            begin_ns = start_ns + number * NS_PER_S
            writer.write(begin_ns, begin_ns + NS_PER_S, histograms)
    return str(path)


@pytest.fixture
def host1(tmp_path: Path) -> str:
    return write(
        tmp_path / "host1.hlog",
        {
            tag("time_to_first_token", model="small"): milliseconds(*range(1, 101)),
            tag("time_to_first_token", model="large"): milliseconds(200, 300),
            tag("segment", segment="queue", model="small"): milliseconds(5, -1),
            tag("output_tokens", model="small"): plain(7, 9),
        },
        {tag("time_to_first_token", model="small"): milliseconds(400)},
    )


@pytest.fixture
def host2(tmp_path: Path) -> str:
    return write(
        tmp_path / "host2.hlog",
        {tag("time_to_first_token", model="small"): milliseconds(1_000)},
        start_ns=START_NS + NS_PER_S // 2,
    )


def shown(capsys: pytest.CaptureFixture[str], *line: str) -> list[str]:
    assert main(["histogram", *line]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out.splitlines()


def cells(capsys: pytest.CaptureFixture[str], *line: str) -> list[str]:
    """Return the lines with one bar in the place of the blanks between two columns."""
    return ["|".join(re.split("  +", each.strip())) for each in shown(capsys, *line)]


def document(capsys: pytest.CaptureFixture[str], *line: str) -> Any:
    return validated(json.loads("\n".join(shown(capsys, *line, "--json"))))


def test_files_are_shown_together(
    host1: str, host2: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Metrics before segments, counts without a unit, and no percentile of too few values."""
    assert cells(capsys, "show", host1, host2, "--all") == [
        "3 intervals from 2025-11-21 13:50:00 to 2025-11-21 13:50:02 UTC",
        "metric|series|n|p50|p90|p95|p99|p99.9|max|rejected|source",
        "time_to_first_token|2|104|52.0 ms|94.0 ms|99.0 ms|400.0 ms|needs 1,000|1,000.0 ms|0|m",
        "output_tokens|1|2|7|needs 10|needs 20|needs 100|needs 1,000|9|0|m",
        "queue|1|1|needs 2|needs 10|needs 20|needs 100|needs 1,000|5.0 ms|1|m",
    ]


def test_one_metric_model_by_model(host1: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cells(capsys, "show", host1, "--metric", "ttft", "--by", "model", "--unit", "s") == [
        "2 intervals from 2025-11-21 13:50:00 to 2025-11-21 13:50:02 UTC",
        "metric|model|series|n|p50|p90|p95|p99|p99.9|max|source",
        "time_to_first_token|large|1|2|0.200 s|needs 10|needs 20|needs 100|needs 1,000|0.300 s|m",
        "time_to_first_token|small|1|101|0.051 s|0.091 s|0.096 s|0.100 s|needs 1,000|0.400 s|m",
    ]


def test_sides_are_never_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A queue that a server measured and one that a client derived are two rows with a column."""
    key = {"kind": "call", "segment": "queue"}
    path = write(
        tmp_path / "a.hlog",
        {
            tag_of("segment", {**key, "side": side}): milliseconds(*values)
            for side, values in (("client", (1, 2)), ("server", (3, 4)))
        },
    )

    assert [line.split("|")[:2] for line in cells(capsys, "show", path)[1:]] == [
        ["metric", "side"],
        ["queue", "client"],
        ["queue", "server"],
    ]
    assert [row["side"] for row in document(capsys, "show", path)["rows"]] == ["client", "server"]


def test_rows_with_too_few_values_are_one_line(
    host1: str, host2: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows without a p95 would bury the others; rejected values stay visible."""
    lines = shown(capsys, "show", host1, host2)

    assert [line.split()[0] for line in lines[2:4]] == ["time_to_first_token", "queue"]
    assert lines[4:] == [
        "  1 row with fewer than 20 values: output_tokens (2); --all shows them",
    ]


def test_a_folder_stands_for_its_files(
    host1: str, host2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each process of a program writes a file of its own into one folder."""
    (tmp_path / "notes.txt").write_text("not a log")

    assert shown(capsys, "show", str(tmp_path)) == shown(capsys, "show", host1, host2)
    assert shown(capsys, "diff", str(tmp_path), host1)[0].startswith("before, 3 intervals")


LONG: str = "the-name-of-a-model-" * 12 + "that-ends-so-v1"


@pytest.fixture
def long_name(tmp_path: Path) -> str:
    """A file with a model whose name has 255 characters."""
    key = tag("time_to_first_token", model=LONG)
    return write(tmp_path / "long.hlog", {key: milliseconds(*range(1, 101))})


def test_a_long_name_is_shortened_in_its_middle(
    long_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a file or a pipe too; the JSON document has the whole name."""
    line = shown(capsys, "show", long_name, "--by", "model")[2]
    (name,) = [word for word in line.split() if word.startswith("the-name")]

    assert len(name) == 60
    assert "…" in name
    assert name.endswith("that-ends-so-v1")
    (row,) = document(capsys, "show", long_name, "--by", "model")["rows"]
    assert row["by"] == {"model": LONG}


def test_a_long_name_fits_a_terminal(long_name: str) -> None:
    """After the columns that a narrow terminal does without, names are shortened further."""
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=True, no_color=True, highlight=False)
    totals = totals_of(long_name)
    rows = rows_of(totals, by=["model"])
    console.print(HistogramsTable(totals, rows, ("model",)), crop=False)
    lines = Text.from_ansi(file.getvalue()).plain.splitlines()

    assert max(map(len, lines)) <= 100
    assert "-v1 " in lines[2]


def test_a_table_fits_a_terminal_of_80_columns(host1: str, host2: str) -> None:
    """The least important columns are left out; nothing is cut or wrapped."""
    totals = totals_of(host1, host2)
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=True, no_color=True, highlight=False)
    console.print(HistogramsTable(totals, rows_of(totals)), crop=False)
    lines = Text.from_ansi(file.getvalue()).plain.splitlines()

    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["metric", "n", "p50", "p95", "p99", "max", "rejected"]


def test_kinds_are_never_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same metric of a call and of a whole request are two rows, the outermost first."""
    path = write(
        tmp_path / "a.hlog",
        {
            tag("duration"): milliseconds(1, 2),
            tag_of("duration", {"kind": "request"}): milliseconds(3, 4),
        },
    )

    rows = document(capsys, "show", path)["rows"]

    assert [(row["kind"], row["count"], row["max"]) for row in rows] == [
        ("request", 2, 4 * NS_PER_MS),
        ("call", 2, 2 * NS_PER_MS),
    ]
    assert shown(capsys, "show", path)[1].split()[:3] == ["metric", "kind", "series"]


def test_series_can_be_chosen(host1: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By attribute, and by the name of a metric, its alias, or a segment."""
    small = document(capsys, "show", host1, "--where", "model=small", "--metric", "ttft")
    queue = document(capsys, "show", host1, "--metric", "queue")

    assert [row["count"] for row in small["rows"]] == [101]
    assert [(row["segment"], row["count"], row["rejected"]) for row in queue["rows"]] == [
        ("queue", 1, 1)
    ]


@pytest.mark.parametrize("command", ["show", "diff"])
@pytest.mark.parametrize(
    ("conditions", "error", "hint"),
    [
        (
            ["model=smal"],
            "no series in the files has model=smal",
            "the values of model are 'small', 'large'",
        ),
        (
            ["model=large", "segment=queue"],
            "no selected series in the files has model=large and segment=queue",
            "leave out an attribute, or select another metric",
        ),
    ],
)
def test_a_selection_of_nothing_is_an_error(
    host1: str,
    capsys: pytest.CaptureFixture[str],
    command: str,
    conditions: list[str],
    error: str,
    hint: str,
) -> None:
    """As with a question to a snapshot: a misspelt value is not answered with an empty table."""
    files = [host1] if command == "show" else [host1, host1]
    where = [word for each in conditions for word in ("--where", each)]

    assert main(["histogram", command, *files, *where]) == 2
    assert capsys.readouterr() == ("", f"error: {error}\nhint: {hint}\n")


def test_a_value_of_one_measurement_is_shown(
    host1: str, host2: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model may have been added between the two."""
    assert "large" in "".join(shown(capsys, "diff", host2, host1, "--by", "model"))
    assert len(shown(capsys, "diff", host2, host1, "--where", "model=large")) > 2


def test_the_document_of_a_file(host1: str, capsys: pytest.CaptureFixture[str]) -> None:
    read = document(capsys, "show", host1, "--metric", "time_to_first_token", "--by", "model")

    assert (read["schema"], read["intervals"]) == ("latspan.histogram-show/1", 2)
    assert read["start_epoch_ns"] == START_NS
    assert read["end_epoch_ns"] == START_NS + 2 * NS_PER_S
    assert read["rows"][0] == {
        "kind": "call",
        "side": None,
        "metric": "time_to_first_token",
        "segment": None,
        "by": {"model": "large"},
        "unit": "ns",
        "series": 1,
        "sources": ["measured"],
        "significant_digits": 3,
        "count": 2,
        "rejected": 0,
        "clamped": 0,
        "sum": 500 * NS_PER_MS,
        "min": 200 * NS_PER_MS,
        "p50": 200_015_871,
        "p90": None,
        "p95": None,
        "p99": None,
        "p99.9": None,
        "max": 300 * NS_PER_MS,
        "cut": 0,
        "failed": 0,
    }


def test_the_spectrum_ends_with_the_largest_value(
    host1: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(capsys, "show", host1, "--metric", "queue", "--spectrum", "--unit", "us")

    assert lines[-3:] == [
        "queue, spectrum of 1 value",
        "  percentile       value  n up to it  1 in",
        "  100.000000  5,000.0 us           1     —",
    ]


def test_two_measurements_side_by_side(
    host1: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What only one of them has stands there too, and a change only where both are known."""
    after = write(
        tmp_path / "after.hlog",
        {
            tag("time_to_first_token", model="small"): milliseconds(*range(2, 202, 2)),
            tag("duration"): milliseconds(1),
        },
    )

    assert cells(capsys, "diff", host1, after, "--where", "source=measured") == [
        "before, 2 intervals from 2025-11-21 13:50:00 to 2025-11-21 13:50:02 UTC",
        "after, 1 interval from 2025-11-21 13:50:00 to 2025-11-21 13:50:01 UTC",
        "metric|before|after|change",
        "duration|n|0|1",
        "time_to_first_token|n|103|100",
        "p50|52.0 ms|100.0 ms|+92.3 %",
        "p90|93.1 ms|180.1 ms|+93.5 %",
        "p95|98.0 ms|190.1 ms|+93.9 %",
        "p99|300.2 ms|198.0 ms|-34.0 %",
        "output_tokens|n|2|0",
        "p50|7|needs 2|—",
        "queue|n|1|0",
    ]


def test_the_document_of_two_measurements(
    host1: str, host2: str, capsys: pytest.CaptureFixture[str]
) -> None:
    read = document(capsys, "diff", host1, host2, "--metric", "ttft")

    assert read["schema"] == "latspan.histogram-diff/1"
    (row,) = read["rows"]
    assert (row["before"]["count"], row["after"]["count"]) == (103, 1)
    assert row["change"] == dict.fromkeys(("p50", "p90", "p95", "p99", "p99.9"))


def totals_of(*paths: str | Path) -> LogTotals:
    totals = LogTotals()
    for path in paths:
        for interval in read_log(path):
            totals.add(interval)
    return totals


@pytest.mark.parametrize("options", [[], ["--intervals"]])
def test_merging_loses_nothing(
    host1: str, host2: str, tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exact sums, extremes and rejected values are those of the files together."""
    merged = tmp_path / "all.hlog"

    assert main(["histogram", "merge", host1, host2, "-o", str(merged), *options]) == 0

    before, after = totals_of(host1, host2), totals_of(merged)
    assert before.series == after.series
    assert (before.start_epoch_ns, before.end_epoch_ns) == (
        after.start_epoch_ns,
        after.end_epoch_ns,
    )
    starts = [interval.start_epoch_ns for interval in read_log(merged)]
    assert starts == sorted(starts)
    assert len(starts) == (3 if options else 1)
    assert sorted(tmp_path.glob("*.tmp")) == []


def test_a_file_can_be_merged_into_itself(host1: str, host2: str) -> None:
    """It is replaced at the end, so what is read is what was there."""
    before = totals_of(host1, host2)

    assert main(["histogram", "merge", host1, host2, "-o", host1]) == 0

    assert before.series == totals_of(host1).series


def test_a_link_stays_a_link(host1: str, tmp_path: Path) -> None:
    """Its target is replaced, also where the link leads nowhere yet; a file keeps its rights."""
    target, link = tmp_path / "elsewhere" / "target.hlog", tmp_path / "link.hlog"
    target.parent.mkdir()
    link.symlink_to(target)

    assert main(["histogram", "merge", host1, "-o", str(link)]) == 0
    target.chmod(0o600)
    assert main(["histogram", "merge", host1, str(link), "-o", str(link)]) == 0

    assert link.is_symlink()
    assert totals_of(link).intervals == 1
    assert totals_of(target).series.keys() == totals_of(host1).series.keys()
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["target.hlog"]


def test_what_another_run_left_is_not_added(
    host1: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the same number may have been killed in the middle of the same command."""
    merged = tmp_path / "all.hlog"
    left = tmp_path / f"all.hlog.{os.getpid()}.tmp"
    write(left, {tag("duration"): milliseconds(1)})
    before = left.read_bytes()

    assert main(["histogram", "merge", host1, "-o", str(merged)]) == 0

    assert totals_of(merged).series == totals_of(host1).series
    assert left.read_bytes() == before


def test_a_fifo_gets_the_log_and_stays_one(host1: str, tmp_path: Path) -> None:
    fifo, got = tmp_path / "fifo", tmp_path / "got.hlog"
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: got.write_bytes(fifo.read_bytes()))
    reader.start()

    assert main(["histogram", "merge", host1, "-o", str(fifo)]) == 0

    reader.join()
    assert fifo.is_fifo()
    assert totals_of(got).series == totals_of(host1).series


def test_a_pipe_gets_the_log(host1: str, tmp_path: Path) -> None:
    """As `/dev/stdout` is one in a shell: a link that leads to no path."""
    got = tmp_path / "got.hlog"
    read_end, write_end = os.pipe()
    try:
        code = main(["histogram", "merge", host1, "-o", f"/dev/fd/{write_end}"])
    finally:
        os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        got.write_bytes(pipe.read())

    assert code == 0
    assert totals_of(got).series == totals_of(host1).series


def test_a_device_stays_one(host1: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beneath a link to it too; one without room is an error."""
    link = tmp_path / "null"
    link.symlink_to("/dev/null")

    assert main(["histogram", "merge", host1, "-o", str(link)]) == 0
    assert main(["histogram", "merge", host1, "-o", "/dev/full"]) == 2

    assert Path("/dev/null").is_char_device()
    assert Path("/dev/full").is_char_device()
    assert link.is_symlink()
    assert "error: cannot write to /dev/full: No space left on device" in capsys.readouterr().err


def test_a_fifo_is_read_once(host1: str, tmp_path: Path) -> None:
    """Opened before, its writer would find that its reader had gone."""
    fifo, merged = tmp_path / "fifo", tmp_path / "all.hlog"
    os.mkfifo(fifo)
    data = Path(host1).read_bytes()
    writer = threading.Thread(target=lambda: fifo.write_bytes(data))
    writer.start()

    assert main(["histogram", "merge", str(fifo), "-o", str(merged)]) == 0

    writer.join()
    assert totals_of(merged).series == totals_of(host1).series


def test_not_every_truncated_interval_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.hlog"
    path.write_text("#[Histogram log format version 1.3]\n#[latspan log 1]\nx\n" * 50)

    assert main(["histogram", "show", str(path)]) == 0

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == f"warning: {path}: 30 more truncated intervals were skipped"


def test_files_of_others_are_merged_with_their_precision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was coarse is marked as such in the new file, and shown so."""
    merged = tmp_path / "all.hlog"
    theirs = [str(DATA / "jHiccup-2.0.7S.logV2.hlog"), str(DATA / "tagged-Log.logV2.hlog")]

    assert main(["histogram", "merge", *theirs, "-o", str(merged)]) == 0
    capsys.readouterr()

    assert {series.precision for series in totals_of(merged).series.values()} == {
        Precision(2, 16_384)
    }
    assert [
        (row["metric"], row["count"], row["significant_digits"])
        for row in document(capsys, "show", str(merged))["rows"]
    ] == [("A", 16_145, 2), ("untagged", 16_145 + 48_761, 2)]
    assert "digits" in shown(capsys, "show", str(merged))[1]


def test_precisions_are_not_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fine = write(tmp_path / "fine.hlog", {None: milliseconds(1)})
    coarse = str(DATA / "jHiccup-2.0.7S.logV2.hlog")
    merged = tmp_path / "all.hlog"

    assert main(["histogram", "merge", fine, coarse, "-o", str(merged)]) == 4

    assert "error: untagged values were written with 3 significant digits and" in (
        said := capsys.readouterr().err
    )
    assert "hint: " in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fine.hlog"]


def test_a_truncated_interval_is_left_out_with_a_warning(
    host1: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(host1).open("ab") as file:
        file.write(b"Tag=a,1.0,1.0,1.0,HISTF")

    assert main(["histogram", "show", host1, "--json"]) == 0

    said = capsys.readouterr()
    assert json.loads(said.out)["intervals"] == 2
    assert said.err == (
        f"warning: {host1}: line 17 belongs to a truncated interval and was skipped\n"
    )


def test_a_damaged_file_is_named_with_its_line(
    host1: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(host1)
    path.write_text(path.read_text().replace("rejected=1", "rejected=7"))

    assert main(["histogram", "show", host1]) == 4

    assert capsys.readouterr().err.startswith(f"error: {host1}, line 13: ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["show", "{none}"], "cannot read {none}: No such file or directory"),
        (["show", "{host1}", "--metric", "tftt"], "no metric or segment 'tftt'"),
        (["show", "{host1}", "--by", "planet"], "no attribute 'planet'"),
        (["show", "{host1}", "--where", "planet=mars"], "no attribute 'planet'"),
        (
            ["merge", "{host1}", "-o", "{none}/x.hlog"],
            "cannot write to {none}/x.hlog: No such file or directory",
        ),
        (["merge", "{host1}", "-o", "{folder}"], "{folder} is a folder"),
        (["merge", "{host1}", "-o", "{loop}"], "cannot write to {loop}: "),
        (["merge", "{host1}", "{empty}", "-o", "{none}"], "no log file in the folder {empty}"),
        (["show", "{empty}"], "no log file in the folder {empty}"),
        ([], "no command given: use show, diff or merge"),
    ],
)
def test_an_invalid_line_is_an_error_with_a_hint(
    host1: str,
    tmp_path: Path,
    line: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    names = {
        "host1": host1,
        "none": str(tmp_path / "none"),
        "folder": str(tmp_path),
        "loop": str(loop),
        "empty": str(tmp_path / "empty"),
    }
    (tmp_path / "empty").mkdir()

    assert main(["histogram", *(each.format(**names) for each in line)]) == 2

    said = capsys.readouterr().err
    assert said.startswith(f"error: {message.format(**names)}")
    assert "hint: " in said


HOSTILE = "\x1b]0;x\x07\n\u202eforged"


@pytest.mark.parametrize(
    "options", [[], ["--by", "model"], ["--by", "source"], ["--by", "model", "--spectrum"]]
)
def test_names_in_a_file_move_no_cursor(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Tags of other programs as they stand, and quoted ones once they are read."""
    path = write(
        tmp_path / "a.hlog",
        {
            tag("duration", model=HOSTILE, source=HOSTILE): milliseconds(1, 2),
            tag_of(HOSTILE, {"kind": HOSTILE}): milliseconds(3),
            "\x1b]0;x\x07\u202e": milliseconds(3),
        },
    )

    lines = shown(capsys, "show", path, *options)

    assert all(line.isprintable() for line in lines)
    assert any("\\x1b]0;x" in line for line in lines)


def test_errors_about_a_file_move_no_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither its own name, nor what is in it, nor what was typed."""
    path = write(tmp_path / f"{HOSTILE}.hlog", {tag(HOSTILE, model="m"): milliseconds(1)})
    with Path(path).open("ab") as file:
        file.write(b"Tag=a,1.0,1.0,1.0,HISTF")

    assert main(["histogram", "show", path, "--metric", HOSTILE + "x"]) == 2
    assert main(["histogram", "show", path + HOSTILE]) == 2
    assert main(["histogram", "merge", path, "-o", str(tmp_path / HOSTILE)]) == 0
    with pytest.raises(SystemExit):
        main(["histogram", "show", path, "--where", HOSTILE])

    written = capsys.readouterr().err
    assert "forged" in written
    assert all(line.isprintable() for line in written.split("\n"))


def test_a_condition_is_a_name_and_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["histogram", "show", "a.hlog", "--where", "model"])

    assert exit_.value.code == 2
    assert "'model' is not NAME=VALUE" in capsys.readouterr().err


def test_a_long_file_is_read_with_progress(
    host1: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, so that the table alone goes on."""
    path = tmp_path / "long.hlog"
    comment = "#" + "x" * 1_000_000 + "\n"
    with path.open("w") as file:
        for _ in range(9):
            file.write(comment * 2 + Path(host1).read_text())

    assert main(["histogram", "show", str(path), "--metric", "queue"]) == 0

    said = capsys.readouterr()
    assert said.err.startswith("  10 of 17 MB, ")
    assert said.out.splitlines()[2].split()[:3] == ["queue", "1", "9"]


@pytest.fixture
def given_up(tmp_path: Path) -> str:
    """Of 40 calls, 3 were given up after 5 s without a token, and one failed."""
    labels = {"model": "small"}
    return write(
        tmp_path / "given_up.hlog",
        {
            tag("time_to_first_token", outcome="completed", **labels): milliseconds(*[100] * 36),
            tag("time_to_first_token.at_least", outcome="cancelled", **labels): milliseconds(
                *[5_000] * 3
            ),
            tag("time_to_first_token.at_least", outcome="error", **labels): milliseconds(7),
            tag("segment", segment="server_wait", outcome="cancelled"): milliseconds(*[5_000] * 3),
            tag("segment.at_least", segment="server_wait", outcome="cancelled"): milliseconds(
                *[5_000] * 3
            ),
        },
    )


def test_a_percentile_that_given_up_calls_decide_is_a_bound(
    given_up: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values and lower bounds are one row; two columns have the shares without a value."""
    lines = shown(capsys, "show", given_up, "--metric", "ttft")

    [row] = [line.split() for line in lines if line.split()[:1] == ["time_to_first_token"]]
    text = " ".join(row)
    assert "36 100.0 ms 100.0 ms ≥ 5,000.0 ms needs 100" in text
    assert " 8 % 2 % " in text
    [found] = document(capsys, "show", given_up, "--metric", "ttft")["rows"]
    assert (found["count"], found["cut"], found["failed"], found["series"]) == (36, 3, 1, 3)
    assert found["p50"] == pytest.approx(100 * NS_PER_MS, rel=0.001)
    assert found["p95"] is None


def test_a_row_of_one_outcome_is_about_the_values_seen(
    given_up: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A question about completed calls leaves out those that were given up."""
    for options in (("--where", "outcome=completed"), ("--by", "outcome")):
        rows = document(capsys, "show", given_up, "--metric", "ttft", *options)["rows"]
        found = {row["by"].get("outcome", "completed"): row for row in rows}
        assert found["completed"]["p95"] == pytest.approx(100 * NS_PER_MS, rel=0.001)
        assert found["completed"]["cut"] == 0


def test_a_segment_in_progress_is_counted_once(
    given_up: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its lower bounds are among the values of the segment."""
    [row] = document(capsys, "show", given_up, "--metric", "server_wait")["rows"]

    assert (row["metric"], row["count"], row["cut"], row["p50"]) == ("segment", 3, 3, None)


def test_two_measurements_show_their_bounds_side_by_side(
    given_up: str, host1: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A change is shown only between two numbers."""
    lines = shown(capsys, "diff", given_up, host1, "--metric", "ttft")

    [p95] = [line for line in lines if line.split()[:1] == ["p95"]]
    assert "≥ 5,000.0 ms" in p95
    assert p95.split()[-1] == "—"
