"""
A program that records one request and goes on until a signal ends it.

``waits_for_a_signal.py HOW``: it is busy, sleeps, reads, or waits in C code that no signal
interrupts. ``answers`` writes each line of standard input back. ``exits`` ends by itself.
"""

from __future__ import annotations

import ctypes
import sys
import time

import latspan


def main(how: str) -> None:
    """Record a request, report it, and go on as ``how`` says."""
    with latspan.request("answer"):
        pass
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if how == "is busy":
        while True:
            sum(range(1000))
    if how == "sleeps":
        time.sleep(600)
    if how == "reads":
        sys.stdin.read()
    if how == "is stuck in C":
        mutex = ctypes.create_string_buffer(128)
        c = ctypes.CDLL(None)
        c.pthread_mutex_lock(mutex)
        c.pthread_mutex_lock(mutex)
    if how == "answers":
        for line in sys.stdin:
            sys.stdout.write(line)
            sys.stdout.flush()


main(*sys.argv[1:])
