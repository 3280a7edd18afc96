"""
The process of one subject: ``python -m rivals._worker SUBJECT MODE COLLECTOR``.

Reads orders, a JSON document a line, and answers each with one; the first answer, unasked, says
that the library is switched on. Whatever it prints goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

from rivals._situations import situation_named
from rivals._subjects import Mode, subject_named
from rivals._switches import On, switch_on
from rivals._telemetry import Telemetry
from rivals._witness import witnessed
from rivals._workloads import WORKLOADS

__all__ = ["main"]


def main() -> int:
    """Do what the command line says, and return the exit status."""
    subject, mode, collector = subject_named(sys.argv[1]), Mode(sys.argv[2]), sys.argv[3]
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        on = switch_on(subject, Telemetry(mode, collector))
        _say(replies, "switched on")
        for order in sys.stdin:
            _say(replies, _done(on, json.loads(order), subject.library.name))
    return 0


def _say(replies: Any, reply: object) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


def _done(on: On, order: dict[str, str], library: str) -> object:
    if "situation" in order:
        return witnessed(on, situation_named(order["situation"]), library).to_json()
    work = WORKLOADS[order["work"]]
    if "warm" in order:
        work(on)
        gc.collect()
        gc.freeze()
        return None
    return work(on)


if __name__ == "__main__":
    # A library's threads, and those of a dead collector's exporter, are not waited for.
    status = main()
    sys.stderr.flush()
    os._exit(status)
