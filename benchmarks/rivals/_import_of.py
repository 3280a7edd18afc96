"""
The process whose imports are measured: ``python -m rivals._import_of SUBJECT``.

It prints CPU time in microseconds: until ``openai`` and the library are imported, and until it is
switched on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module

from rivals._subjects import Mode, subject_named

__all__ = ["main"]


def main() -> int:
    """Execute the command line, and return the exit status."""
    subject = subject_named(sys.argv[1])
    before = time.process_time_ns()
    # Not before: a plug-in of pydantic's comes with it, and Logfire is one.
    import_module("openai")
    for module in subject.library.imports:
        import_module(module)
    imported = time.process_time_ns()
    from rivals._switches import switch_on
    from rivals._telemetry import Telemetry

    switch_on(subject, Telemetry(Mode.MEMORY, ""))
    switched_on = time.process_time_ns()
    print(json.dumps([(imported - before) / 1000, (switched_on - before) / 1000]), flush=True)
    return 0


if __name__ == "__main__":
    # What libraries do when a process ends is not measured.
    os._exit(main())
