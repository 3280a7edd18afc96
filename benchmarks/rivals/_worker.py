"""
Process of one subject: ``python -m rivals._worker SUBJECT MODE COLLECTOR``.

It reads orders from standard input, one JSON document per line, and replies to each with one line
on standard output. The first reply, before any order, reports that the library is switched on.
Everything that the library prints goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

from rivals._situation_result import run_situation
from rivals._situations import situation_named
from rivals._subjects import Mode, subject_named
from rivals._switches import On, switch_on
from rivals._telemetry import Telemetry
from rivals._workloads import WORKLOADS


def main() -> int:
    """Execute the orders, and return the exit status."""
    subject, mode, collector = subject_named(sys.argv[1]), Mode(sys.argv[2]), sys.argv[3]
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        on = switch_on(subject, Telemetry(mode, collector))
        _send(replies, "switched on")
        for order in sys.stdin:
            _send(replies, _done(on, json.loads(order), subject.library.name))
    return 0


def _send(replies: Any, reply: object) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


def _done(on: On, order: dict[str, str], library: str) -> object:
    if "situation" in order:
        return run_situation(on, situation_named(order["situation"]), library).to_json()
    work = WORKLOADS[order["work"]]
    if "warm" in order:
        work(on)
        gc.collect()
        gc.freeze()
        return None
    return work(on)


if __name__ == "__main__":
    # Ends without waiting for threads of the library or of an exporter to a dead collector.
    status = main()
    sys.stderr.flush()
    os._exit(status)
