"""What :meth:`HistogramLogWriter.write` returned for is in the file, however the process ends."""

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
LONGEST_S = 0.03


def test_fifty_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Every process goes on with the same file, so each also meets what the one before it left."""
    # The same moments in every run; nothing here is secret.
    moments = random.Random(50)  # noqa: S311
    path = tmp_path / "a.hlog"
    first, acknowledged = 0, list[int]()
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, PROGRAM, path, str(first)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            acknowledged.append(int(process.stdout.readline()))
            killer = threading.Timer(moments.uniform(0, LONGEST_S), process.kill)
            killer.start()
            acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
            killer.join()
        # One more may have been written than could still be acknowledged.
        first = acknowledged[-1] + 2

    read = {
        interval.start_epoch_ns: {series.tag: series.histogram for series in interval.series}
        for interval in read_log(path)
    }

    assert {number: interval_of(number) for number in acknowledged} == {
        number: read[number] for number in acknowledged
    }
    assert len(acknowledged) > KILLS
