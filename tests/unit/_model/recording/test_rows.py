"""A snapshot as plain values and as a table: one row per series."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.metrics import MetricValue
from latspan._model.recording import Recorder, RequestRecord, Snapshot, empty_snapshot
from latspan._model.segments import Kind, Outcome, Segment
from latspan.errors import MissingExtraError, UnknownNameError
from latspan.testing import ManualClock


def call(duration_ms: int) -> RequestRecord:
    duration_ns = duration_ms * NS_PER_MS
    return RequestRecord(
        name="chat m",
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=duration_ns,
        segments=(Segment("queue", 0, duration_ns),),
        metrics={"fluidity": MetricValue(500_000_000), "stall_count": MetricValue(2)},
        attributes={"model": "m"},
    )


def snapshot_of(*records: RequestRecord) -> Snapshot:
    recorder = Recorder(ManualClock())
    for record in records:
        recorder.record(record)
    return recorder.snapshot()


COMMON = {"kind": "call", "side": "client", "outcome": "completed", "model": "m"}


def test_a_row_has_what_is_known_of_a_series() -> None:
    """In the unit asked for; percentiles with too few values are absent, as are their numbers."""
    snapshot = snapshot_of(*(call(ms) for ms in (100, 100)))

    document = snapshot.to_dict(unit="ns")

    assert json.loads(json.dumps(document)) == document
    rows = document.pop("series")
    assert document == {
        "schema": "latspan.snapshot/1",
        "start_epoch_ns": snapshot.start_epoch_ns,
        "end_epoch_ns": snapshot.end_epoch_ns,
    }
    assert [row["metric"] for row in rows] == ["duration", "fluidity", "segment", "stall_count"]
    assert rows[0] == {
        "metric": "duration",
        "attributes": {**COMMON, "source": "measured"},
        "unit": "ns",
        "count": 2,
        "rejected": 0,
        "clamped": 0,
        "sum": 200_000_000,
        "min": 100_000_000,
        "p50": 100_000_000,
        "p90": None,
        "p95": None,
        "p99": None,
        "p99.9": None,
        "max": 100_000_000,
    }
    assert rows[2]["attributes"] == {**COMMON, "source": "measured", "segment": "queue"}


def test_numbers_are_those_of_the_queries() -> None:
    """Milliseconds by default; ratios and counts as they are."""
    snapshot = snapshot_of(*(call(ms) for ms in range(1, 21)))

    duration, fluidity, _, stalls = snapshot.to_dict()["series"]

    assert (duration["unit"], duration["p95"], duration["max"]) == (
        "ms",
        snapshot.percentile("duration", 95),
        20,
    )
    assert (fluidity["unit"], fluidity["min"], fluidity["sum"]) == ("ratio", 0.5, 10)
    assert (stalls["unit"], stalls["min"], stalls["sum"]) == ("1", 2, 40)
    with pytest.raises(UnknownNameError, match="'min' is not a unit of time"):
        snapshot.to_dict(unit="min")  # pyright: ignore[reportArgumentType]


def test_a_series_without_values_has_no_extremes() -> None:
    """A negative value is only counted as rejected."""
    broken = replace(call(1), metrics={"fluidity": MetricValue(-1)})

    (row,) = [row for row in snapshot_of(broken).to_dict()["series"] if row["metric"] == "fluidity"]

    assert (row["count"], row["rejected"], row["min"], row["max"]) == (0, 1, None, None)
    assert empty_snapshot().to_dict()["series"] == []


def test_a_table_has_a_column_per_attribute() -> None:
    """Attributes that a series lacks are missing values."""
    pandas: Any = pytest.importorskip("pandas")
    snapshot = snapshot_of(*(call(ms) for ms in range(1, 21)))

    table: Any = snapshot.to_pandas()

    assert list(table.columns) == [
        *("metric", "kind", "side", "outcome", "model", "source", "segment", "unit", "count"),
        *("rejected", "clamped", "sum", "min", "p50", "p90", "p95", "p99", "p99.9", "max"),
    ]
    duration = table.set_index("metric").loc["duration"]
    assert (duration["count"], duration["max"], duration["model"]) == (20, 20, "m")
    assert pandas.isna(duration["segment"])
    assert pandas.isna(duration["p99"])
    assert list(empty_snapshot().to_pandas().columns) == ["metric"]


WITHOUT_PANDAS = """
import sys
sys.modules["pandas"] = None
import latspan
latspan.snapshot().to_pandas()
"""


def test_a_missing_pandas_is_named_with_its_command() -> None:
    """Only `to_pandas` needs it."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], capture_output=True, text=True)

    assert done.stderr.endswith(
        f"{MissingExtraError.__name__}: the package 'pandas' is not installed\n"
        "hint: pip install 'latspan[pandas]'\n"
    )
