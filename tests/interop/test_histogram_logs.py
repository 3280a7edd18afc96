"""Logs go from latspan to HdrHistogram in Java and JavaScript and back, with the same numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hdrh.histogram import HdrHistogram

from latspan.errors import HistogramFormatError
from latspan.histogram import Histogram, HistogramLogWriter, LogTotals, Precision, read_log
from latspan.histogram._buckets import HIGHEST_NS

DATA = Path(__file__).parents[1] / "data"
PERCENTILES = (50.0, 90.0, 99.0, 100.0)
# 1,000 values, so that each percentile is a rank of its own however an implementation rounds.
COUNT = 1_000


def lognormal(seed: int) -> list[int]:
    # The same values in every run; nothing here is secret.
    values = random.Random(seed)  # noqa: S311
    return [round(3e8 * values.lognormvariate(0, 0.5)) for _ in range(COUNT)]


def highest_equivalent(digits: int, value: int) -> int:
    reference = cast("Any", HdrHistogram(1, HIGHEST_NS, digits))
    return reference.get_highest_equivalent_value(value)


def test_javascript_reads_what_latspan_writes(
    javascript: Callable[..., str], tmp_path: Path
) -> None:
    path = tmp_path / "a.hlog"
    values = {"ttft?model=a%20b": lognormal(1), None: lognormal(2)}
    histograms: dict[str | None, Histogram] = {tag: Histogram() for tag in values}
    for tag, histogram in histograms.items():
        histogram.record_many(values[tag])
    with HistogramLogWriter(path) as writer:
        writer.write(1_763_733_000_123_456_789, 1_763_733_001_123_456_789, histograms)

    printed = javascript("reads_a_log.js", path, *map(str, PERCENTILES))

    assert [json.loads(line) for line in printed.splitlines()] == [
        {
            "tag": tag,
            "count": COUNT,
            "percentiles": [
                highest_equivalent(3, sorted(many)[round(percentile * COUNT / 100) - 1])
                for percentile in PERCENTILES
            ],
        }
        for tag, many in values.items()
    ]


@pytest.mark.parametrize("digits", [1, 2, 3, 4, 5])
def test_latspan_reads_what_javascript_writes(
    javascript: Callable[..., str], tmp_path: Path, digits: int
) -> None:
    path, source = tmp_path / "a.hlog", tmp_path / "values.json"
    values = lognormal(digits)
    source.write_text(json.dumps([{"tag": "a", "digits": digits, "values": values}]))
    javascript("writes_a_log.js", path, source)

    (interval,) = read_log(path)
    (series,) = interval.series

    assert (series.tag, series.histogram.count) == ("a", COUNT)
    assert series.precision == Precision(min(digits, 3), 1)
    assert (interval.start_epoch_ns, interval.end_epoch_ns) == (
        1_763_733_000_123_000_000,
        1_763_733_001_123_000_000,
    )
    assert [series.histogram.value_at_percentile(percentile) for percentile in PERCENTILES] == [
        highest_equivalent(min(digits, 3), sorted(values)[round(percentile * COUNT / 100) - 1])
        for percentile in PERCENTILES
    ]


def test_latspan_reads_what_java_writes() -> None:
    """Percentiles are the ones that Java gave for the very same histograms, of any precision."""
    said = json.loads((DATA / "java-2.2.2.json").read_text())

    read = list(read_log(DATA / "java-2.2.2.hlog"))

    assert len(said) == len(read)
    for theirs, interval in zip(said, read, strict=True):
        (series,) = interval.series
        digits, lowest = theirs["digits"], theirs["lowest"]
        assert (theirs["tag"], theirs["count"]) == (series.tag, series.histogram.count)
        assert theirs["start_ms"] * 10**6 == interval.start_epoch_ns
        assert series.precision == Precision(min(digits, 3), 512 if lowest == 1000 else 1)
        for percentile in (50, 90, 95, 99, 99.9, 100):
            value = min(theirs[f"p{percentile}"], HIGHEST_NS)
            ours = series.histogram.value_at_percentile(percentile)
            assert value <= ours <= value + (value // 1024 if digits > 3 else 0)


def test_the_logs_of_jhiccup_hold_what_the_reference_implementation_finds_in_them() -> None:
    """
    Total, and the 99.9th percentile with the two digits that the log was written with.

    Source: hdrhistogram 0.10.8, ``test/test_hdrhistogram.py``, which counts each value as the
    lowest of its bucket: 48,761 values, 1745879039 ns, and at most 1796210687 ns.
    """
    totals = LogTotals()
    for interval in read_log(DATA / "jHiccup-2.0.7S.logV2.hlog"):
        totals.add(interval)
    held = totals.series[None]

    reference = cast("Any", HdrHistogram(20_000, HIGHEST_NS, 2))
    assert (totals.intervals, held.histogram.count) == (62, 48_761)
    assert held.precision == Precision(2, 16_384)
    assert held.histogram.value_at_percentile(99.9) == reference.get_highest_equivalent_value(
        1_745_879_039
    )
    assert held.histogram.max_ns == reference.get_highest_equivalent_value(1_796_210_687)


def test_tags_of_others_are_kept_apart() -> None:
    totals = LogTotals()
    for interval in read_log(DATA / "tagged-Log.logV2.hlog"):
        totals.add(interval)

    assert {tag: series.histogram.count for tag, series in totals.series.items()} == {
        None: 32_290 // 2,
        "A": 32_290 // 2,
    }
    assert totals.series[None].histogram == totals.series["A"].histogram


def test_a_log_in_the_old_format_is_refused_by_name() -> None:
    with pytest.raises(HistogramFormatError, match="line 4: the histogram has the old format V1"):
        list(read_log(DATA / "raphael.hlog"))
