"""
A program that records one request and goes on until a signal ends it.

``waits_for_a_signal.py HOW``: it is busy, sleeps, reads, or waits in C code that no signal
interrupts. ``answers`` writes each line of standard input back. ``exits`` ends by itself.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

import latspan


def main(how: str) -> None:
    """Record a request, report it, and go on as ``how`` says."""
    with latspan.request("answer"):
        pass
    if how == "is stuck in C":
        be_stuck_in_c()
    say_ready()
    if how == "is busy":
        while True:
            sum(range(1000))
    if how == "sleeps":
        time.sleep(600)
    if how == "reads":
        sys.stdin.read()
    if how == "answers":
        for line in sys.stdin:
            sys.stdout.write(line)
            sys.stdout.flush()


def say_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def be_stuck_in_c() -> None:
    """Wait for a mutex that this thread holds, which no signal interrupts."""
    mutex = ctypes.create_string_buffer(128)
    c = ctypes.CDLL(None)

    def report() -> None:
        # glibc changes the first byte from 1 to 2 when a thread waits.
        while mutex.raw[0] != 2:
            os.sched_yield()
        say_ready()

    threading.Thread(target=report).start()
    c.pthread_mutex_lock(mutex)
    c.pthread_mutex_lock(mutex)


main(*sys.argv[1:])
