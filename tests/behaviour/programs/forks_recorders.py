"""
Four workers record values known to their parent: ``forks_recorders.py FOLDER``.

Each writes a log in the folder and exports its histograms, with intervals as short as possible.
"""

from __future__ import annotations

import os
import random
import sys

import latspan
from latspan import Kind
from latspan._live.process.runtime import current_runtime
from latspan.integrations import Outcome
from latspan.testing import RequestRecord, Segment

WORKERS = 4
RECORDS = 2_000


def durations_ns(worker: int) -> list[int]:
    """Return the values of a worker; every call returns the same ones."""
    source = random.Random(worker)  # noqa: S311 - reproducible data, no secret
    return [round(source.lognormvariate(18, 0.5 + worker / 4)) for _ in range(RECORDS)]


def work(worker: int) -> None:
    runtime = current_runtime()
    assert runtime is not None
    for number, duration_ns in enumerate(durations_ns(worker)):
        runtime.recorder.record(
            RequestRecord(
                name="x",
                kind=Kind.CALL,
                outcome=Outcome.COMPLETED,
                start_epoch_ns=0,
                duration_ns=duration_ns,
                segments=(Segment("queue", 0, duration_ns),),
                attributes={"model": f"m{number % 3}"},
            )
        )
        if number % 500 == 0:
            # Any job starts the export; the values are spread over several intervals.
            runtime.enqueue(runtime.recorder.drain)
            latspan.force_flush()
    latspan.shutdown()


def main() -> None:
    latspan.configure(histogram_log_dir=sys.argv[1], export_raw_histograms=True)
    children: list[int] = []
    for worker in range(WORKERS):
        child = os.fork()
        if child == 0:
            work(worker)
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    latspan.shutdown()


if __name__ == "__main__":
    main()
