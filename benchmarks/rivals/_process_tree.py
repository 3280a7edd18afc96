"""
Program that runs a command, and prints the CPU time of the command and of all its descendants.

Run as ``python _process_tree.py COMMAND ...``. On Linux, the program adopts descendants whose
parents have ended, so that their CPU time counts too. It returns when all of them have ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36


def main(command: list[str]) -> None:
    """Run the command in a session of its own; its standard output is written to ``output``."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    with Path("output").open("wb") as output, Path("errors").open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        status = process.wait()
    with suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "status": status,
        "cpu_s": used.ru_utime + used.ru_stime,
        "took_s": time.monotonic() - began,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
