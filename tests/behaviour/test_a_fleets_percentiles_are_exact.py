"""Histograms of several processes are merged without loss, from files and from OTLP."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest

from behaviour.programs.forks_recorders import RECORDS, WORKERS, durations_ns
from latspan import Snapshot, read_snapshots
from latspan._model.recording import read_tag
from latspan.histogram import Histogram, decode
from support.otlp import attributes_of
from support.programs import run_program
from support.receivers import Receiver, receiving


@pytest.fixture
def pooled() -> Histogram:
    """Every value of every worker, recorded in one histogram."""
    histogram = Histogram()
    for worker in range(WORKERS):
        histogram.record_many(durations_ns(worker))
    return histogram


def test_merged_files_and_payloads_equal_one_histogram_of_all_values(
    tmp_path: Path, pooled: Histogram
) -> None:
    """Bucket by bucket, and with the exact sum and extremes."""
    with receiving() as receiver:
        run_program("forks_recorders", str(tmp_path / "logs"), LATSPAN_ENDPOINT=receiver.url)

    logs = sorted((tmp_path / "logs").glob("*.hlog"))
    intervals = [snapshot for log in logs for snapshot in read_snapshots(log)]
    fleet = reduce(Snapshot.merge, intervals)
    sent = merged_payloads(receiver, metric="duration")

    assert len(logs) == WORKERS
    assert len(intervals) > WORKERS
    assert fleet.metric("duration").histogram == pooled
    assert fleet.segment("queue").histogram == pooled
    assert sent == pooled
    assert fleet.count(model="m0") == WORKERS * -(-RECORDS // 3)


def merged_payloads(receiver: Receiver, *, metric: str) -> Histogram:
    """Return the merged log records of a metric."""
    total = Histogram()
    for record in receiver.all_logs:
        said = attributes_of(record.attributes)
        assert record.event_name == "latspan.histogram"
        if read_tag(str(said["latspan.series"])).metric == metric:
            total.merge(
                Histogram.from_buckets(
                    decode(record.body.string_value).histogram,
                    sum_ns=int(str(said["latspan.histogram.sum"])),
                    min_ns=int(str(said["latspan.histogram.min"])),
                    max_ns=int(str(said["latspan.histogram.max"])),
                )
            )
    return total
