"""
Process whose imports are measured: ``python -m rivals._import_of SUBJECT``.

It prints two CPU times in microseconds: until ``openai`` and the library are imported, and until
the library is switched on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module

from rivals._subjects import Mode, subject_named


def main() -> int:
    """Execute the command line, and return the exit status."""
    subject = subject_named(sys.argv[1])
    before = time.process_time_ns()
    # Not imported earlier: it imports pydantic, which loads its plug-ins, and Logfire is one.
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
    # Ends without the libraries' exit handlers, which are not part of the measurement.
    os._exit(main())
