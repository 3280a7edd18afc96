"""A server that configures latspan, serves, and forks four workers and an idle child."""

from __future__ import annotations

import os
import sys
import threading

import latspan


def serve(times: int) -> None:
    for _ in range(times):
        with latspan.stage("retrieve"):
            pass


def leave_without_a_trace(modules: set[str]) -> None:
    """Print the threads and imports that the fork itself caused, and end without exit handlers."""
    threads = [thread.name for thread in threading.enumerate() if thread.name != "MainThread"]
    print(threads, sorted(set(sys.modules) - modules), started)  # noqa: T201
    sys.stdout.flush()
    os._exit(0)


def count_starts(self: threading.Thread) -> None:
    started.append(self.name)
    start(self)


latspan.configure()
serve(5)
latspan.snapshot()
for thread in threading.enumerate():
    if thread.name == "latspan-loader":
        # What it imports is not imported by the fork.
        thread.join()
start, started = threading.Thread.start, list[str]()
threading.Thread.start = count_starts
loaded = set(sys.modules)
workers = list[int]()
for number in range(4):
    worker = os.fork()
    if worker == 0:
        serve(10 + number)
        sys.exit()
    workers.append(worker)
idle = os.fork()
if idle == 0:
    leave_without_a_trace(loaded)
for child in (idle, *workers):
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        sys.exit("a child failed")
serve(5)
