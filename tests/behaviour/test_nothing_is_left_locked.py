"""Neither a fork nor a signal handler can deadlock on a lock of latspan."""

from __future__ import annotations

import subprocess
import sys

FORK = """
import os, threading
from latspan._base.clock import SystemClock
from latspan._model.recording import Recorder
from latspan.testing import RequestRecord
from latspan import Kind
from latspan.integrations import Outcome

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


INTERRUPTED = """
import os, signal, sys, tempfile, threading
import latspan
from latspan._live.process.runtime import current_runtime
from latspan.testing import RequestRecord
from latspan import Kind
from latspan.integrations import Outcome

latspan.configure(export_enabled=False, histogram_log_dir=tempfile.mkdtemp())
with latspan.request("answer"):
    pass
assert latspan.force_flush()
runtime = current_runtime()
recorder = runtime.recorder
before = []

class Interrupting(dict):
    # Counted by this thread, which is interrupted while another waits for the recorder.
    def items(self):
        if not before:
            before.append(True)
            WAITS
            while not recorder._awaited:
                os.sched_yield()
            signal.raise_signal(signal.SIGUSR1)
        return super().items()

def handler(*_):
    print(HANDLED)

signal.signal(signal.SIGUSR1, handler)
recorder.record(
    RequestRecord(
        name="x",
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=5,
        segments=(),
        metrics=Interrupting(),
    )
)
recorder.drain()
print(recorder.snapshot().count(kind="call"))
os._exit(0)
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


def test_a_forked_child_starts_empty_even_if_the_recorder_is_locked() -> None:
    """It has its own lock; earlier records belong to the parent."""
    assert _run(FORK) == "1 1"


def test_a_signal_handler_may_shut_down_during_a_shutdown() -> None:
    """It has nothing left to do, and does not wait for itself."""
    assert _run(SIGNAL) == "True"


def test_a_signal_handler_may_shut_down_while_it_interrupts_the_recorder() -> None:
    """The exporting thread waits for the recorder; the handler returns at its timeout."""
    exporting = "threading.Thread(target=latspan.force_flush, daemon=True).start()"
    program = INTERRUPTED.replace("WAITS", exporting).replace("HANDLED", "latspan.shutdown(0.5)")

    assert _run(program) == "None\n1"


def test_a_signal_handler_may_take_a_snapshot_while_it_interrupts_the_recorder() -> None:
    """The worker waits for the recorder; the handler does not wait for the worker."""
    program = INTERRUPTED.replace("WAITS", "runtime.enqueue(recorder.snapshot)").replace(
        "HANDLED", "latspan.snapshot().count(kind='request')"
    )

    assert _run(program) == "1\n1"
