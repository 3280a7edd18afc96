"""A server that configures latspan, serves, and then forks its workers."""

from __future__ import annotations

import os
import sys

import latspan


def serve(name: str) -> None:
    with latspan.request(name):
        pass


latspan.configure(keep_records=None)
serve("before the fork")
latspan.snapshot()
child = os.fork()
name = "in the child" if child == 0 else "in the parent"
serve(name)
if name not in {record.name for record in latspan.snapshot().records}:
    sys.exit(f"{name} nothing was recorded")
if not latspan.force_flush():
    sys.exit(f"{name} nothing was sent")
if child:
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
