"""An interval is in the file once :meth:`HistogramLogWriter.write` returned, even after a kill."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

from behaviour.programs.appends_intervals import interval_of
from latspan.histogram import read_log

PROGRAM = Path(__file__).parent / "programs" / "appends_intervals.py"
KILLS = 50
MAX_S = 0.03


def test_fifty_kills_lose_no_acknowledged_interval(tmp_path: Path) -> None:
    """All processes append to one file, so each also reads what the previous one left."""
    # The same delays in every run; nothing here is secret.
    moments = random.Random(50)  # noqa: S311
    path = tmp_path / "a.hlog"
    first, acknowledged = 0, list[int]()
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, PROGRAM, path, str(first)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            acknowledged.append(int(process.stdout.readline()))
            killer = threading.Timer(moments.uniform(0, MAX_S), process.kill)
            killer.start()
            acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
            killer.join()
        # One more interval may have been written without being acknowledged.
        first = acknowledged[-1] + 2

    read = {
        interval.start_epoch_ns: {series.tag: series.histogram for series in interval.series}
        for interval in read_log(path)
    }

    assert {number: interval_of(number) for number in acknowledged} == {
        number: read[number] for number in acknowledged
    }
    assert len(acknowledged) > KILLS
