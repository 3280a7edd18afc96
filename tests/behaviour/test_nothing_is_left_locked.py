"""Neither a fork nor a signal handler finds a lock that nobody will let go of."""

from __future__ import annotations

import subprocess
import sys

FORK = """
import os, threading
from latspan.clock import SystemClock
from latspan.recording import Recorder, RequestRecord
from latspan.segments import Kind, Outcome

recorder = Recorder(SystemClock())
record = RequestRecord(
    name="x",
    kind=Kind.CALL,
    outcome=Outcome.COMPLETED,
    start_epoch_ns=0,
    duration_ns=5,
    segments=(),
)
recorder.record(record)
held, over = threading.Event(), threading.Event()

def hold():
    with recorder._lock:
        held.set()
        over.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    recorder.record(record)
    os._exit(recorder.snapshot().count())
over.set()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), recorder.snapshot().count())
"""

SIGNAL = """
import signal, socket, threading
import latspan

silent = socket.create_server(("127.0.0.1", 0))
latspan.configure(endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
with latspan.request("answer"):
    pass
began = threading.Event()

def handler(*_):
    latspan.shutdown()
    began.set()

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
latspan.shutdown(2.0)
print(began.is_set())
"""


def _run(program: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout.strip()


def test_a_forked_child_starts_empty_whoever_held_the_recorder() -> None:
    """It has a lock of its own; what was recorded before is the parent's."""
    assert _run(FORK) == "1 1"


def test_a_signal_handler_may_shut_down_during_the_shutdown() -> None:
    """It has nothing left to do, and does not wait for itself."""
    assert _run(SIGNAL) == "True"
