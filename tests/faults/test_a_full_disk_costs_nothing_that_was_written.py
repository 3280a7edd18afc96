"""A disk is full, of the collector or of the application, until there is room again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pytest

from latspan import Snapshot, read_snapshots
from latspan.histogram import read_log
from latspan.testing import ScriptedServer
from support.collector import CollectorAddresses, Written, calls_counted
from support.disks import almost_full_disk
from support.programs import Driven, driving
from support.receivers import refusing
from tests.faults.conftest import QUICK, Unharmed, flush

CALLS: Final = 40
ROOM: Final = 64 << 10
"""Less than the spans of :data:`CALLS` calls take; more than the first interval of a log does."""

BEGINS: Final = '{"resourceSpans":'


def warnings_of(app: Driven) -> list[str]:
    return [message for _, level, message in app.do("report")["log"] if level != "INFO"]


def ids_in(line: str) -> set[str]:
    document: dict[str, Any] = json.loads(line)
    scopes = [scope for held in document["resourceSpans"] for scope in held["scopeSpans"]]
    return {span["spanId"] for scope in scopes for span in scope["spans"]}


def ids_behind_a_truncated_line(lines: list[str]) -> Iterator[set[str]]:
    """Yield what stands behind a line that was never ended."""
    for line in lines:
        truncated, _, behind = line.rpartition(BEGINS)
        if truncated:
            yield ids_in(BEGINS + behind)


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_the_collectors(
    otelcol: Path, model: ScriptedServer, tmp_path: Path, protocol: str
) -> None:
    """
    It refuses for now what it cannot write, so latspan keeps it, and all is in the file in the end.

    One batch is hard to read there: the Collector goes on behind what it had begun to write.
    """
    at, written = CollectorAddresses.free(), Written(tmp_path)
    with (
        almost_full_disk(tmp_path / "disk", ROOM) as disk,
        written.by_next(otelcol, at, disk.folder),
        driving(
            "is_driven",
            model.base_url,
            LATSPAN_ENDPOINT=at.url(protocol),
            LATSPAN_PROTOCOL=protocol,
            **QUICK,
        ) as app,
    ):
        unharmed = Unharmed(app)
        for _ in unharmed.call(CALLS):
            pass
        assert not app.do("flush 5")["flushed"]
        assert disk.free == 0
        assert len(warnings_of(app)) == 1
        disk.make_room()
        for _ in unharmed.call(CALLS):
            pass
        flush(app)
        report = app.do("report")
        assert len(warnings_of(app)) == 1
        (file,) = disk.folder.glob("spans-*.jsonl")
        lines = file.read_text("utf-8").splitlines()

    behind = list(ids_behind_a_truncated_line(lines))
    assert len(behind) == 1
    whole = [ids_in(line) for line in lines if BEGINS not in line[1:]]
    assert set[str]().union(*whole, *behind) == set(report["ended"])
    assert written.dropped == {}
    assert calls_counted(written.metrics) == unharmed.calls


def test_of_the_log_of_histograms(model: ScriptedServer, tmp_path: Path) -> None:
    """What was written stays whole, what was not is written later, and OTLP goes on meanwhile."""
    with (
        almost_full_disk(tmp_path / "disk", ROOM) as disk,
        refusing("http/protobuf", None) as collector,
        driving(
            "is_driven",
            model.base_url,
            LATSPAN_ENDPOINT=collector.url,
            LATSPAN_HISTOGRAM_LOG_DIR=str(disk.folder),
            LATSPAN_METRICS_INTERVAL_S="3600",
        ) as app,
    ):
        unharmed = Unharmed(app)
        in_the_log = 0
        while calls_and_flush(app, unharmed):
            in_the_log = unharmed.calls
        said = warnings_of(app)
        while_full = calls_in(disk.folder)
        assert not calls_and_flush(app, unharmed)
        assert warnings_of(app) == said
        otlp_while_full = calls_counted(collector.taken.all_metrics)
        calls_while_full = unharmed.calls
        disk.make_room()
        assert calls_and_flush(app, unharmed)
        after = calls_in(disk.folder)

    assert while_full == in_the_log > 0
    assert otlp_while_full == calls_while_full > in_the_log
    assert after == unharmed.calls
    (line,) = said
    assert f"cannot write an interval to {disk.folder}" in line
    assert ": No space left on device" in line


def test_of_the_log_of_histograms_at_the_end(model: ScriptedServer, tmp_path: Path) -> None:
    """A process that ends before there is room loses what did not fit, and ends well."""
    with almost_full_disk(tmp_path / "disk", ROOM) as disk:
        with (
            refusing("http/protobuf", None) as collector,
            driving(
                "is_driven",
                model.base_url,
                LATSPAN_ENDPOINT=collector.url,
                LATSPAN_HISTOGRAM_LOG_DIR=str(disk.folder),
                LATSPAN_METRICS_INTERVAL_S="3600",
            ) as app,
        ):
            unharmed = Unharmed(app)
            in_the_log = 0
            while calls_and_flush(app, unharmed):
                in_the_log = unharmed.calls
        assert calls_in(disk.folder) == in_the_log > 0
        assert calls_counted(collector.taken.all_metrics) == unharmed.calls > in_the_log


RUN: Final = (sys.executable, "-m", "latspan", "run", "--report", "--")
REQUESTS: Final = """
import sys
import latspan
for _ in range(400):
    with latspan.request("answer"): pass
"""


def test_of_the_records_of_a_run(tmp_path: Path) -> None:
    """The report contains what was written, and states how many records were not."""
    with almost_full_disk(tmp_path / "disk", ROOM) as disk:
        done = subprocess.run(
            [*RUN, sys.executable, "-c", REQUESTS],
            env={**os.environ, "TMPDIR": str(disk.folder), "COLUMNS": "100"},
            capture_output=True,
            text=True,
        )

    assert done.returncode == 0
    report = " ".join(done.stderr.split())
    assert "the recording lacks further requests of this process" in report
    (written,) = re.findall(r"median of (\d+) requests", report)
    (lost,) = re.findall(r"Missing: (\d+) records of requests or calls could not", report)
    assert int(written) > 0
    assert int(written) + int(lost) == 400
    assert "may be missing" not in report


MEASURE: Final = (sys.executable, "-m", "latspan", "measure", "--concurrency", "2", "--requests")
CHECK: Final = "p95 duration <= 60s"


def test_of_a_measurement(model: ScriptedServer, tmp_path: Path) -> None:
    """The verdict on the requests that were recorded is printed, with the number of the others."""
    with almost_full_disk(tmp_path / "disk", 5 * ROOM // 2) as disk:
        done = subprocess.run(
            [*MEASURE, "100", model.base_url, "--output", disk.folder / "run", "--check", CHECK],
            env={**os.environ, "COLUMNS": "200"},
            capture_output=True,
            text=True,
        )
        left = {path.name for path in (disk.folder / "run").iterdir()}

    assert "No space left on device" in done.stderr
    (measured,) = re.findall(r", (\d+) calls measured", done.stdout)
    assert 0 < int(measured) < 100
    assert "p95 of duration at most 60,000 ms" in done.stdout
    assert re.search(r"Missing: \d+ records of requests or calls could not", done.stdout)
    assert "recording.json" in left
    assert ".reserved" not in left


def test_of_a_measurement_that_cannot_be_recorded(model: ScriptedServer, tmp_path: Path) -> None:
    """It is an error before the load, and leaves nothing."""
    with almost_full_disk(tmp_path / "disk", ROOM) as disk:
        done = subprocess.run(
            [*MEASURE, "1000", model.base_url, "--output", disk.folder / "run"],
            capture_output=True,
            text=True,
        )
        assert not (disk.folder / "run").exists()

    assert done.returncode == 4
    assert "kB of free space; a recording of 1,011 requests needs" in done.stderr
    assert "hint: free some space" in done.stderr


def calls_and_flush(app: Driven, unharmed: Unharmed) -> bool:
    """Have it ask a few times, and say whether all of that was written."""
    for _ in unharmed.call(4):
        pass
    flushed: bool = app.do("flush 5")["flushed"]
    return flushed


def calls_in(folder: Path) -> int:
    """Return how many calls the one log holds, of which no interval is truncated."""
    (path,) = folder.glob("*.hlog")
    log = read_log(path)
    assert list(log)
    assert log.truncated == []
    return reduce(Snapshot.merge, read_snapshots(path)).count(kind="call")
