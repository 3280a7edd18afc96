"""
Processes add runs to one baseline file at once: ``adds_runs_to_a_baseline.py FILE [endless]``.

Each adds runs of one call with a duration of its own. With ``endless``, one process adds runs until
it is killed.
"""

from __future__ import annotations

import os
import sys
from itertools import count

from latspan import Kind
from latspan._base.nanoseconds import NS_PER_S
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment
from latspan.testing._assertions import add_to_baseline

PROCESSES = 8
RUNS = 5


def add(seconds: int) -> None:
    """Add a run of one call that takes as many seconds."""
    duration_ns = seconds * NS_PER_S
    record = RequestRecord(
        name="x",
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=duration_ns,
        segments=(Segment("queue", 0, duration_ns),),
        metrics={"duration": MetricValue(duration_ns)},
    )
    add_to_baseline([record], sys.argv[1], Kind.CALL)


def main() -> None:
    if "endless" in sys.argv:
        for number in count(1):
            add(number % 60 + 1)
    # Children are forked after everything has been imported, and begin together when the parent
    # closes the pipe.
    begin, ready = os.pipe()
    children: list[int] = []
    for process in range(PROCESSES):
        child = os.fork()
        if child == 0:
            os.close(ready)
            os.read(begin, 1)
            for run in range(RUNS):
                add(process * RUNS + run + 1)
            os._exit(0)
        children.append(child)
    os.close(ready)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    add(1_000)
    main()
