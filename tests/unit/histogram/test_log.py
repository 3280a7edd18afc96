"""A log gives back what was written to it, whole intervals only, and says what it left out."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given
from hypothesis import strategies as st

from latspan.errors import HistogramFormatError, HistogramPrecisionError, HistogramWriteError
from latspan.histogram import (
    FULL_PRECISION,
    Histogram,
    HistogramLogWriter,
    LoggedInterval,
    LoggedSeries,
    LogTotals,
    Precision,
    TruncatedInterval,
    encode,
    read_log,
)
from latspan.histogram._buckets import HIGHEST_NS

START_NS = 1_763_733_000_123_456_789
SECOND_NS = 10**9

values = st.lists(st.integers(-5, 2 * HIGHEST_NS) | st.integers(0, 5_000), max_size=20)
tags = st.none() | st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1).filter(
    lambda tag: "," not in tag and not any(each.isspace() for each in tag)
)


def histogram_of(*recorded: int) -> Histogram:
    histogram = Histogram()
    histogram.record_many(recorded)
    return histogram


def logged(path: Path, *intervals: dict[str | None, Histogram]) -> list[LoggedInterval]:
    """Write the intervals, a second each, and return what they are."""
    with HistogramLogWriter(path) as writer:
        for number, histograms in enumerate(intervals):
            start_ns = START_NS + number * SECOND_NS
            writer.write(start_ns, start_ns + SECOND_NS, histograms)
    return [
        LoggedInterval(
            START_NS + number * SECOND_NS,
            START_NS + (number + 1) * SECOND_NS,
            tuple(LoggedSeries(tag, histogram) for tag, histogram in histograms.items()),
        )
        for number, histograms in enumerate(intervals)
    ]


SMALL: tuple[dict[str | None, Histogram], ...] = (
    {"a?b=c": histogram_of(5, 1_000, SECOND_NS, -1), None: histogram_of()},
    {},
    {"a?b=c": histogram_of(HIGHEST_NS + 1)},
)


@given(st.lists(st.dictionaries(tags, values, max_size=3), max_size=3))
def test_a_log_gives_back_exactly_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str | None, list[int]]]
) -> None:
    """Counts, exact sum, smallest and largest, rejected and clamped, and the instants."""
    path = tmp_path_factory.mktemp("log") / "a.hlog"
    intervals = logged(
        path, *({tag: histogram_of(*many) for tag, many in each.items()} for each in written)
    )

    log = read_log(path)

    assert intervals == list(log)
    assert log.truncated == []


def test_a_log_cut_at_any_byte_has_the_intervals_that_were_closed(tmp_path: Path) -> None:
    """What is left of a truncated one is reported, whatever is left."""
    path, cut = tmp_path / "whole.hlog", tmp_path / "cut.hlog"
    ends: list[int] = []
    with HistogramLogWriter(path) as writer:
        for number, histograms in enumerate(SMALL):
            writer.write(START_NS + number, START_NS + number + 1, histograms)
            ends.append(path.stat().st_size)
    whole, intervals = path.read_bytes(), list(read_log(path))
    header = whole.index(b'Histogram"\n') + len(b'Histogram"\n')

    for length in range(len(whole) + 1):
        cut.write_bytes(whole[:length])
        # Nothing but the last line's end is missing where a single byte is.
        closed = sum(end - 1 <= length for end in ends)
        log = read_log(cut)

        assert list(log) == intervals[:closed]
        assert bool(log.truncated) == (
            length > header and length - (ends[closed - 1] if closed else header) > 0
        )


def test_a_log_goes_on_after_a_truncated_interval(tmp_path: Path) -> None:
    """Wherever a writer was cut off, the next one's intervals count and only those lines do not."""
    path = tmp_path / "a.hlog"
    intervals = logged(path, *SMALL)
    whole = path.read_bytes()
    last = len(whole) - len(whole[: whole.rindex(b"#[latspan sum")])

    for missing in range(1, last):
        path.write_bytes(whole[:-missing])
        logged(path, SMALL[0])

        log = read_log(path)

        found = list(log)
        assert found[-1] == intervals[0]
        assert found[:-1] == (intervals if missing == 1 else intervals[:-1])
        assert [truncated.first_line for truncated in log.truncated] == (
            [] if missing == 1 else [11]
        )


def test_a_truncated_line_that_another_process_continued_is_recognised(tmp_path: Path) -> None:
    """Two processes append to one file, and one of them is killed in the middle of a line."""
    path = tmp_path / "a.hlog"
    logged(path, SMALL[0])
    with HistogramLogWriter(path) as writer:
        with path.open("ab") as other:
            other.write(b"Tag=x,1.000,1.000,0.000,HISTFAAA")
        writer.write(START_NS, START_NS + 1, SMALL[2])

    log = read_log(path)

    assert [len(interval.series) for interval in log] == [2, 1]
    assert log.truncated == [TruncatedInterval(10, 10)]
    assert str(log.truncated[0]) == "line 10 belongs to a truncated interval and was skipped"


@pytest.mark.parametrize(
    ("written", "damaged", "message"),
    [
        ("rejected=1", "rejected=2", "line 9: .* changed after it was written"),
        ("1000.000,HISTF", "1000.000,HISTE", "line 6: this is not a histogram"),
        ("of 2 series", "of 3 series", "line 9: .* changed after it was written"),
        ("of 2 series", "of two series", "line 9: a damaged end"),
        ("Time: 17", "Time: 1.7.", "line 2: .* not a time in seconds"),
    ],
)
def test_damage_in_the_middle_is_an_error_with_its_line(
    tmp_path: Path, written: str, damaged: str, message: str
) -> None:
    path = tmp_path / "a.hlog"
    logged(path, *SMALL)
    text = path.read_text()
    assert written in text
    path.write_text(text.replace(written, damaged))

    with pytest.raises(HistogramFormatError, match=message) as raised:
        list(read_log(path))
    assert raised.value.hint


@pytest.mark.parametrize("content", ["hello\n", "hello", "\0" * 100, "1,2,3,HISTFAAA\n", "Tag=a"])
def test_what_is_no_log_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.hlog"
    path.write_text(content)

    with pytest.raises(HistogramFormatError, match="line 1: "):
        list(read_log(path))
    with pytest.raises(HistogramFormatError, match="not a log of latspan"):
        HistogramLogWriter(path)
    assert path.read_text() == content


def test_a_log_of_others_is_read_line_by_line(tmp_path: Path) -> None:
    """Times count from the log's start where they are more than a year before it."""
    text = encode(histogram_of(7))
    path = tmp_path / "a.hlog"
    path.write_text(
        "#[Histogram log format version 1.3]\r\n"
        "#[StartTime: 1441812279.474 (seconds since epoch), Wed Sep 09 08:24:39 PDT 2015]\r\n\r\n"
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\r\n'
        f"Tag=x,0.127,1.007,2.769,{text}\r\n"
        "# a comment\r\n"
        f"1.5,1,2.769,{text}\r\n"
        "2.5,1,2.769,HISTF"
    )

    log = read_log(path)

    assert [(each.start_epoch_ns, each.end_epoch_ns, each.series[0].tag) for each in log] == [
        (1_441_812_279_601_000_000, 1_441_812_280_608_000_000, "x"),
        (1_441_812_280_974_000_000, 1_441_812_281_974_000_000, None),
    ]
    assert log.truncated == [TruncatedInterval(8, 8)]


def requoted(text: str, form: str) -> str:
    """Return a log as a CSV tool writes it, or a spreadsheet that read one column."""
    if form == "lines":
        lines = [[line] for line in text.splitlines()]
    else:
        lines = list(csv.reader(text.splitlines()))
    written = io.StringIO()
    quoting = csv.QUOTE_MINIMAL if form == "where needed" else csv.QUOTE_ALL
    csv.writer(written, quoting=quoting).writerows(lines)
    return written.getvalue()


@pytest.mark.parametrize("form", ["fields", "lines", "where needed"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "with a byte order mark"])
def test_a_log_that_went_through_a_csv_tool_is_the_same(
    tmp_path: Path, form: str, mark: str
) -> None:
    """The checksum confirms each interval; the lines of another program have none."""
    ours, others = tmp_path / "ours.hlog", tmp_path / "others.hlog"
    text = encode(histogram_of(7))
    others.write_text(
        "#[Histogram log format version 1.3]\n"
        "#[StartTime: 1441812279.474 (seconds since epoch), Wed Sep 09 08:24:39 PDT 2015]\n"
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
        f"Tag=x,0.127,1.007,2.769,{text}\n"
        f"1.5,1,2.769,{text}\n"
    )
    logged(ours, *SMALL)
    for path in (ours, others):
        before = list(read_log(path))
        assert before
        written = mark + requoted(path.read_text(), form)
        path.write_bytes(written.encode())

        log = read_log(path)

        assert (list(log), log.truncated) == (before, [])


@pytest.mark.parametrize("beginning", ["", "#[latspan log 1]\n"], ids=["another log", "latspan's"])
@pytest.mark.parametrize(
    "line",
    [
        '"Tag=x,1.000,1.000,0.000,HISTF',
        '"Tag=x"y,1.000,1.000,0.000,HISTF',
        '"Tag=x,y",1.000,1.000,0.000,HISTF',
        'Tag=x,"1.000,1.000,0.000,HISTF',
    ],
)
def test_a_line_with_wrong_quotes_is_an_error_with_its_number(
    tmp_path: Path, beginning: str, line: str
) -> None:
    """It was skipped, and its values were missing from the result without a word."""
    path = tmp_path / "a.hlog"
    path.write_text(f"#[Histogram log format version 1.3]\n{beginning}{line}\n")

    with pytest.raises(HistogramFormatError, match=f"line {3 if beginning else 2}: a "):
        list(read_log(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("#[latspan log 2]", "another form"),
        ("#[StartTime: yesterday]", "damaged start time"),
        ("#[BaseTime: -1 (seconds since epoch)]", "damaged start time"),
    ],
)
def test_a_comment_that_matters_and_cannot_be_read_is_an_error(
    tmp_path: Path, line: str, message: str
) -> None:
    """Without it, every line after it would be read wrongly."""
    path = tmp_path / "a.hlog"
    path.write_text(f"#[Histogram log format version 1.3]\n{line}\n")

    with pytest.raises(HistogramFormatError, match=f"line 2: .*{message}"):
        list(read_log(path))


def test_logs_put_behind_each_other_are_one(tmp_path: Path) -> None:
    """Each header says anew whose intervals follow."""
    path, other = tmp_path / "a.hlog", tmp_path / "b.hlog"
    logged(path, SMALL[0])
    other.write_text(f"#[Histogram log format version 1.2]\n1,1,0,{encode(histogram_of(3))}\n")
    whole = path.read_bytes()
    path.write_bytes(whole + other.read_bytes() + whole)

    assert [len(interval.series) for interval in read_log(path)] == [2, 1, 2]


def test_the_packages_own_reader_reads_a_log(tmp_path: Path) -> None:
    path = tmp_path / "a.hlog"
    logged(path, *SMALL)

    reader = cast("Any", HistogramLogReader)(str(path), HdrHistogram(1, HIGHEST_NS, 3))
    read: list[Any] = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        read.append(histogram)
    reader.input_file.close()

    assert [(each.get_tag(), each.get_total_count()) for each in read] == [
        ("a?b=c", 3),
        (None, 0),
        ("a?b=c", 1),
    ]
    assert read[0].get_start_time_stamp() == pytest.approx(START_NS // 10**6, abs=1)


@pytest.mark.parametrize("tag", ["", "a,b", "a b", "a\nb"])
def test_a_tag_that_would_break_the_line_is_refused(tmp_path: Path, tag: str) -> None:
    path = tmp_path / "a.hlog"
    with HistogramLogWriter(path) as writer, pytest.raises(HistogramFormatError, match="a tag"):
        writer.write(START_NS, START_NS + 1, {tag: histogram_of(1)})
    assert path.read_bytes() == b""


def test_a_full_disk_takes_nothing_away() -> None:
    """The part that still fitted is cut off again; once there is room the log goes on."""
    program = """
import resource, signal, sys, tempfile
from pathlib import Path
from latspan.errors import HistogramWriteError
from latspan.histogram import Histogram, HistogramLogWriter, read_log

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(tempfile.mkdtemp()) / "a.hlog"
histogram = Histogram()
histogram.record_many(range(1000, 10**9, 10**7))
writer = HistogramLogWriter(path, fsync=True)
writer.write(1, 2, {"a": histogram})
size = path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 200, resource.RLIM_INFINITY))
try:
    writer.write(2, 3, {"a": histogram})
except HistogramWriteError as error:
    print(error.message.replace(str(path), "PATH"), isinstance(error, OSError), sep="|")
print(path.stat().st_size == size)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.write(3, 4, {"a": histogram})
log = read_log(path)
print([interval.start_epoch_ns for interval in log], log.truncated)
path.unlink()
path.parent.rmdir()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == (
        "cannot write an interval to PATH: File too large|True\nTrue\n[1, 3] []\n",
        "",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_device_without_room_is_a_clear_error() -> None:
    with (
        HistogramLogWriter("/dev/full") as writer,
        pytest.raises(HistogramWriteError, match="No space left"),
    ):
        writer.write(1, 2, {"a": histogram_of(1)})


def test_a_file_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(HistogramWriteError, match="No such file") as raised:
        HistogramLogWriter(tmp_path / "none" / "a.hlog")
    assert raised.value.hint


def test_a_closed_writer_takes_nothing_more(tmp_path: Path) -> None:
    writer = HistogramLogWriter(tmp_path / "a.hlog")
    writer.close()
    writer.close()

    with pytest.raises(HistogramWriteError, match="is closed"):
        writer.write(1, 2, {})


def test_a_writer_killed_within_its_first_lines_is_followed_by_another(tmp_path: Path) -> None:
    """Its header is truncated, so the next one writes a whole one."""
    path = tmp_path / "a.hlog"
    intervals = logged(path, SMALL[0])
    whole = path.read_bytes()

    for length in range(whole.index(b'"Start')):
        path.write_bytes(whole[:length])
        logged(path, SMALL[0])

        assert list(read_log(path)) == intervals


def test_each_interval_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that two processes that append to one file do not mix their lines."""
    sizes: list[int] = []
    write = os.write

    def counted(file: int, data: bytes) -> int:
        sizes.append(len(data))
        return write(file, data)

    monkeypatch.setattr(os, "write", counted)
    path = tmp_path / "a.hlog"
    logged(path, *SMALL)

    assert len(sizes) == len(SMALL)
    assert sum(sizes) == path.stat().st_size


def test_coarse_values_stay_marked_as_such(tmp_path: Path) -> None:
    path = tmp_path / "a.hlog"
    coarse = Precision(2, 1024)
    with HistogramLogWriter(path) as writer:
        writer.write(1, 2, {"a": histogram_of(1), "b": histogram_of(2)}, precisions={"a": coarse})

    assert [
        (series.tag, series.precision) for interval in read_log(path) for series in interval.series
    ] == [("a", coarse), ("b", FULL_PRECISION)]


def test_different_precisions_are_never_merged() -> None:
    """The sum would be as coarse as the coarsest, and nobody could tell."""
    totals = LogTotals()
    totals.add(LoggedInterval(1, 2, (LoggedSeries("a", histogram_of(1)),)))

    with pytest.raises(HistogramPrecisionError, match="3 significant digits and with 2") as raised:
        totals.add(LoggedInterval(2, 3, (LoggedSeries("a", histogram_of(1), Precision(2, 1)),)))
    assert raised.value.hint


@given(st.lists(st.dictionaries(tags, values, max_size=3), min_size=1, max_size=4))
def test_totals_are_the_sum_in_any_order(written: list[dict[str | None, list[int]]]) -> None:
    intervals = [
        LoggedInterval(
            number,
            number + 5,
            tuple(LoggedSeries(tag, histogram_of(*many)) for tag, many in each.items()),
        )
        for number, each in enumerate(written)
    ]
    forwards, backwards = LogTotals(), LogTotals()
    for interval in intervals:
        forwards.add(interval)
    for interval in reversed(intervals):
        backwards.add(interval)

    assert forwards.series == backwards.series
    assert forwards.series == {
        tag: LoggedSeries(
            tag, histogram_of(*(value for each in written for value in each.get(tag, [])))
        )
        for tag in {tag for each in written for tag in each}
    }
    assert (forwards.start_epoch_ns, forwards.end_epoch_ns) == (0, len(written) + 4)
    assert (backwards.start_epoch_ns, backwards.end_epoch_ns) == (0, len(written) + 4)
