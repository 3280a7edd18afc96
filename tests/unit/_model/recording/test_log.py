"""Snapshots are written to histogram logs and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from latspan._model.recording import (
    Series,
    SeriesKey,
    Snapshot,
    key_of,
    read_snapshots,
    write_interval,
)
from latspan._model.segments import Kind
from latspan.errors import HistogramPrecisionError
from latspan.histogram import Histogram, HistogramLogWriter, Precision, encode


def histogram_of(*recorded: int) -> Histogram:
    histogram = Histogram()
    histogram.record_many(recorded)
    return histogram


def snapshot_of(start_ns: int, series: dict[SeriesKey, Histogram]) -> Snapshot:
    end_ns = start_ns + 10
    return Snapshot(
        series={key: Series(histogram, start_ns, end_ns) for key, histogram in series.items()},
        start_epoch_ns=start_ns,
        end_epoch_ns=end_ns,
    )


TTFT = key_of(
    "time_to_first_token",
    {"kind": "call", "model": "a b,c", "outcome": "completed", "source": "measured"},
)
QUEUE = key_of("segment", {"kind": "stage", "segment": "queue", "source": "server_reported"})


def test_a_snapshot_is_read_back_unchanged(tmp_path: Path) -> None:
    """Keys, counts, exact sums and extremes, and both timestamps to the nanosecond."""
    path = tmp_path / "a.hlog"
    snapshots = [
        snapshot_of(123_456_789, {TTFT: histogram_of(5, 7, -1), QUEUE: histogram_of(10**9)}),
        snapshot_of(123_456_799, {}),
        snapshot_of(123_456_809, {TTFT: histogram_of()}),
    ]
    with HistogramLogWriter(path) as writer:
        for snapshot in snapshots:
            write_interval(writer, snapshot)

    assert snapshots == list(read_snapshots(path))


def test_unknown_tags_are_read_as_metric_names(tmp_path: Path) -> None:
    """So is a tag in latspan's format that has an unknown attribute or kind."""
    path = tmp_path / "a.hlog"
    tags = ["A", "x?planet=mars", "y?kind=dream"]
    text = encode(histogram_of(7))
    path.write_text(
        "".join(f"Tag={tag},1.0,1.0,0.0,{text}\n" for tag in tags) + f"1.0,1.0,0.0,{text}\n"
    )

    keys = [key for snapshot in read_snapshots(path) for key in snapshot.series]

    assert keys == [key_of(tag, {}) for tag in (*tags, "untagged")]
    assert {key.kind for key in keys} == {Kind.CALL}


def test_values_of_lower_precision_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.hlog"
    with HistogramLogWriter(path) as writer:
        writer.write(1, 2, {"a": histogram_of(1)}, precisions={"a": Precision(2, 1)})

    with pytest.raises(HistogramPrecisionError, match="2 significant digits"):
        list(read_snapshots(path))
