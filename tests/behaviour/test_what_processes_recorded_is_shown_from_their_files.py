"""Histogram logs of several processes are shown as one measurement."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from latspan import Kind, Source, write_interval
from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._model.recording import Recorder
from latspan.histogram import HistogramLogWriter
from latspan.integrations import Outcome
from latspan.testing import ManualClock, RequestRecord, Segment

INTERVALS = 3
REQUESTS = 20


def call(duration_ns: int, model: str) -> RequestRecord:
    return RequestRecord(
        name="chat",
        kind=Kind.CALL,
        start_epoch_ns=0,
        duration_ns=duration_ns,
        outcome=Outcome.COMPLETED,
        segments=(Segment("server_wait", 0, duration_ns, Source.UNKNOWN),),
        attributes={"model": model},
    )


def recorded(path: Path, first_ms: int, model: str) -> list[int]:
    """Record calls in several intervals, write them to the log, and return their durations."""
    clock = ManualClock(epoch_offset_ns=1_763_733_000 * NS_PER_S)
    recorder = Recorder(clock)
    durations: list[int] = []
    with HistogramLogWriter(path) as writer:
        for interval in range(INTERVALS):
            clock.advance(10 * NS_PER_S)
            for number in range(REQUESTS):
                durations.append((first_ms + 100 * interval + number) * NS_PER_MS + 1)
                recorder.record(call(durations[-1], model))
            write_interval(writer, recorder.swap_interval())
    return durations


def test_two_processes_are_shown_as_one(tmp_path: Path) -> None:
    """Counts, sum and extremes are exactly those of all calls."""
    paths = [tmp_path / "a.hlog", tmp_path / "b.hlog"]
    durations = recorded(paths[0], 100, "large") + recorded(paths[1], 10, "small")

    done = subprocess.run(
        [sys.executable, "-m", "latspan", "histogram", "show", *paths, "--json"],
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    rows = {(row["metric"], row["segment"]): row for row in document["rows"]}
    assert set(rows) == {("duration", None), ("segment", "server_wait")}
    assert document["intervals"] == 2 * INTERVALS
    for row in rows.values():
        assert (row["kind"], row["count"]) == ("call", len(durations))
        assert (row["sum"], row["min"], row["max"]) == (
            sum(durations),
            min(durations),
            max(durations),
        )
