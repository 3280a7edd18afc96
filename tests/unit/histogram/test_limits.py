"""What a hostile or damaged log claims is bounded, and refused where it cannot be so."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any, cast

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from latspan.errors import HistogramFormatError
from latspan.histogram import (
    Histogram,
    HistogramLogWriter,
    LoggedInterval,
    LoggedSeries,
    LogTotals,
    Precision,
    encode,
    read_log,
)
from latspan.histogram._buckets import (
    HIGHEST_NS,
    highest_value_of,
    index_of,
    lowest_value_of,
    lowest_values,
)

HEAD = "#[Histogram log format version 1.3]\n"
OURS = f"{HEAD}#[latspan log 1]\n"
DAY_S = 24 * 3600


def wrapped(counts: bytes, *, digits: int = 3, lowest: int = 1, highest: int = HIGHEST_NS) -> str:
    header = struct.pack(">IIiiqqd", 0x1C849313, len(counts), 0, digits, lowest, highest, 1.0)
    data = zlib.compress(header + counts, 9)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(data)) + data).decode()


def ours(comment: str, text: str, *, start: int = 1, end: int = 2) -> str:
    """Return a closed interval of one series, with a checksum that is right."""
    lines = f"{comment}\nTag=a,0.000,0.000,0.000,{text}\n"
    crc = zlib.crc32(lines.encode())
    return f"{OURS}{lines}#[latspan interval of 1 series, {start} to {end} ns, crc32 {crc:08x}]\n"


def read(path: Path, text: str) -> list[LoggedInterval]:
    path.write_text(text)
    return list(read_log(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.hlog"


def recorded(*values: int) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            wrapped(b"\x02" * 6_000_000, digits=5, highest=(1 << 63) - 1),
            "above the limit of 524,288",
        ),
        (wrapped(b"\x02" * 16_000_000, digits=3, highest=(1 << 63) - 1), "bytes of counts"),
        (wrapped(b"\x02", digits=5, lowest=1 << 60, highest=(1 << 63) - 1), "it is damaged"),
    ],
    ids=["six million counters", "a bomb", "values beyond 64 bits"],
)
def test_a_histogram_that_no_recorder_writes_is_refused(
    path: Path, text: str, message: str
) -> None:
    """A line of a few thousand bytes would take seconds and a gigabyte."""
    with pytest.raises(HistogramFormatError, match=message):
        read(path, f"{HEAD}1,1,0,{text}\n")


@pytest.mark.repetitive
def test_a_file_does_not_decode_to_many_times_its_size(path: Path) -> None:
    """Each of its lines by itself might be of a histogram in which everything was hit once."""
    line = f"1,1,0,{wrapped(bytes([2]) * 37_000)}\n"
    text = HEAD + line * 200

    with pytest.raises(HistogramFormatError, match=r"line 6\d: .* bytes of counts"):
        read(path, text)
    assert len(read(path, HEAD + line * 50)) == 50


def test_every_histogram_of_latspans_is_read(path: Path) -> None:
    """The largest there can be lies within the bounds."""
    most = (1 << 62) // (index_of(HIGHEST_NS) + 1)
    full = Histogram.from_buckets((index, most) for index in range(index_of(HIGHEST_NS) + 1))
    with HistogramLogWriter(path) as writer:
        writer.write(1, 2, {"a": full})

    (interval,) = read_log(path)

    assert interval.series[0].histogram == full


def test_series_that_take_too_much_memory_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two counters far apart are a short line, and 75 kB in memory."""
    wide = Histogram.from_buckets([(0, 40_000), (index_of(HIGHEST_NS), 1)])
    with HistogramLogWriter(path) as writer:
        writer.write(1, 2, {f"a{number}": wide for number in range(50)})
    (interval,) = read_log(path)
    monkeypatch.setattr("latspan.histogram._limits.MAX_HELD_BYTES", 3_000_000)

    with pytest.raises(HistogramFormatError, match=r"line \d+: the series together"):
        list(read_log(path))
    totals = LogTotals()
    with pytest.raises(HistogramFormatError, match="the series together"):
        totals.add(interval)


def test_totals_that_no_histogram_holds_are_refused() -> None:
    totals = LogTotals()
    half = Histogram.from_buckets([(5, 1 << 62)])
    totals.add(LoggedInterval(1, 2, (LoggedSeries("a", half),)))

    with pytest.raises(HistogramFormatError, match="cannot hold"):
        totals.add(LoggedInterval(1, 2, (LoggedSeries("a", half),)))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("1,1,0," + "x" * 1_100_000, "longer than 1 MiB"),
        (f"Tag={'x' * 70_000},1,1,0,{encode(recorded(1))}", "a tag of more than"),
        (f"999999999999,1,0,{encode(recorded(1))}", "after the year 9999"),
        (f"253402300799,1,0,{encode(recorded(1))}", "after the year 9999"),
        (
            f"#[StartTime: 253402300799.0\n{400 * DAY_S},999999999999,0,{encode(recorded(1))}",
            "after the year 9999",
        ),
        (f"\u0661,1,0,{encode(recorded(1))}", "not a time in seconds"),
    ],
    ids=["line", "tag", "year 33658", "end", "from its start", "other digits"],
)
def test_a_line_that_cannot_be_is_refused(path: Path, lines: str, message: str) -> None:
    with pytest.raises(HistogramFormatError, match=message):
        read(path, f"{HEAD}{lines}\n")


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (2, 1, "ends before it starts"),
        (0, 99_999_999_999_999_999_999, ""),
        (0, 253_402_300_799_000_000_001, "damaged end"),
    ],
)
def test_an_interval_has_a_time_that_can_be(path: Path, start: int, end: int, message: str) -> None:
    text = ours("#[latspan sum=1 min=1 max=1 rejected=0 clamped=0]", encode(recorded(1)))
    whole = text.replace("1 to 2 ns", f"{start} to {end} ns")
    if not message:
        assert [each.end_epoch_ns for each in read(path, whole)] == [end]
        return
    with pytest.raises(HistogramFormatError, match=message):
        read(path, whole)


def test_an_interval_that_is_never_closed_is_not_held(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latspan.histogram._log_reader.MAX_OPEN_LINES", 100)

    with pytest.raises(HistogramFormatError, match="line 103: an interval of more than 100 lines"):
        read(path, OURS + "x\n" * 200)


@pytest.mark.parametrize(
    ("exact", "message"),
    [
        (f"sum={'9' * 5_000} min=5 max=5000 rejected=0 clamped=0", "a histogram without"),
        ("sum=5005 min=5 max=5000 rejected=0 clamped=0", None),
        ("sum=5004 min=5 max=5000 rejected=0 clamped=0", "a sum"),
        ("sum=5020 min=5 max=5000 rejected=0 clamped=0", "a sum"),
        ("sum=5005 min=4 max=5000 rejected=0 clamped=0", "a smallest value"),
        ("sum=5005 min=6 max=5000 rejected=0 clamped=0", "a smallest value"),
        ("sum=5005 min=5 max=4 rejected=0 clamped=0", "a smallest value"),
        ("sum=5005 min=5 max=6000 rejected=0 clamped=0", "a largest value"),
        ("sum=5005 min=5 max=99999999999999999999 rejected=0 clamped=0", "a largest value"),
        ("sum=5005 min=5 max=5000 rejected=0 clamped=1", "more clamped"),
        ("sum=5005 rejected=0 clamped=0", "an empty histogram"),
        ("sum=5005 min=5 max=5000 rejected=0 clamped=0 digits=2 lowest=3", "a precision"),
        ("sum=5005 min=5 max=5000 rejected=0 clamped=0 digits=2 lowest=0", "a precision"),
        ("sum=5005 min=0 max=5003 rejected=0 clamped=0 digits=2 lowest=4", None),
    ],
)
def test_exact_values_that_contradict_the_buckets_are_refused(
    path: Path, exact: str, message: str | None
) -> None:
    """Sum, extremes and clamped values are believed only as far as the counts allow."""
    text = ours(f"#[latspan {exact}]", encode(recorded(5, 5000)))
    if message is None:
        assert len(read(path, text)) == 1
        return
    with pytest.raises(HistogramFormatError, match=f"line 4: {message}"):
        read(path, text)


def test_an_empty_histogram_has_no_sum(path: Path) -> None:
    text = ours("#[latspan sum=5 rejected=0 clamped=0]", encode(Histogram()))

    with pytest.raises(HistogramFormatError, match="of a histogram that is empty"):
        read(path, text)


def test_a_series_of_latspans_has_its_own_buckets(path: Path) -> None:
    """With others its counts would be taken for more precise than they are."""
    text = ours("#[latspan sum=1 min=1 max=1 rejected=0 clamped=0]", wrapped(b"\x00\x02", digits=1))

    with pytest.raises(HistogramFormatError, match="a precision that latspan does not write"):
        read(path, text)


numbers = st.integers(0, 100) | st.integers(0, 10**40)


@settings(max_examples=300)
@given(
    st.lists(st.integers(-1, HIGHEST_NS * 2), max_size=8),
    numbers,
    st.none() | st.tuples(numbers, numbers),
    numbers,
    numbers,
    st.tuples(numbers, numbers),
)
def test_every_comment_is_refused_or_consistent(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[int],
    sum_ns: int,
    extremes: tuple[int, int] | None,
    rejected: int,
    clamped: int,
    span: tuple[int, int],
) -> None:
    """What was read is consistent in itself, and can be written and read once more."""
    histogram = recorded(*values)
    said = "" if extremes is None else f" min={extremes[0]} max={extremes[1]}"
    text = ours(
        f"#[latspan sum={sum_ns}{said} rejected={rejected} clamped={clamped}]",
        encode(histogram),
        start=span[0],
        end=span[1],
    )
    folder = tmp_path_factory.mktemp("log")
    try:
        intervals = read(folder / "a.hlog", text)
    except HistogramFormatError:
        return

    for interval in intervals:
        held = interval.series[0].histogram
        if held.count:
            buckets = list(held)
            assert buckets[0][0] == index_of(held.min_ns)
            assert buckets[-1][0] == index_of(held.max_ns)
            assert held.min_ns <= held.mean_ns <= held.max_ns
        with HistogramLogWriter(folder / "b.hlog") as writer:
            writer.write(interval.start_epoch_ns, interval.end_epoch_ns, {"a": held})
        assert list(read_log(folder / "b.hlog")) == [interval]


@given(
    st.lists(st.integers(0, HIGHEST_NS), min_size=1, max_size=30),
    st.integers(1, 5),
    st.sampled_from([1, 4096]),
)
def test_what_is_merged_of_others_can_be_read_again(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], digits: int, lowest: int
) -> None:
    """Whatever its precision: the bounds on sum and extremes hold for coarse values too."""
    folder = tmp_path_factory.mktemp("log")
    theirs = cast("Any", HdrHistogram)(lowest, HIGHEST_NS, digits)
    for value in values:
        theirs.record_value(value)
    text = theirs.encode()
    (interval,) = read(folder / "a.hlog", f"{HEAD}1,1,0,{text.decode()}\n")
    (series,) = interval.series
    with HistogramLogWriter(folder / "b.hlog") as writer:
        writer.write(1, 2, {None: series.histogram}, precisions={None: series.precision})

    (again,) = read_log(folder / "b.hlog")

    assert again.series == (series,)
    assert series.precision == Precision(min(digits, 3), lowest)


def test_a_bucket_is_no_wider_than_a_1024th_of_its_values() -> None:
    """On which the bound on a sum rests."""
    values = lowest_values()

    assert list(values) == [lowest_value_of(index) for index in range(len(values))]
    assert all(
        highest_value_of(index) - lowest <= lowest / 1024 for index, lowest in enumerate(values)
    )
