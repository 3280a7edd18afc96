"""A program that is inside a request when it exits or receives SIGTERM."""

from __future__ import annotations

import signal
import sys
import threading

import latspan

latspan.configure()
opened = threading.Event()


def work() -> None:
    with latspan.request("open"), latspan.stage("tool"):
        opened.set()
        threading.Event().wait()


threading.Thread(target=work, daemon=True).start()
opened.wait()
if sys.argv[1] == "waits":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.pause()
