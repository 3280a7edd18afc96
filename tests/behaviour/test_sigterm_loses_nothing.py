"""SIGTERM under ``latspan run`` exports everything recorded, and has the effect it would have."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.otlp import free_ports
from support.programs import PROGRAMS, serving
from support.receivers import Receiver, receiving
from support.workers import TWO_OF_UVICORN, ask_every_worker

RUN: Final = (sys.executable, "-m", "latspan", "run", "--")
RUNS: Final = 10
AT_ONCE: Final = 2
DEADLINE_S: Final = 60.0

Program = subprocess.Popen[str]


def environment(**variables: str) -> dict[str, str]:
    ours = ("OTEL_", "LATSPAN_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, **variables}


@contextmanager
def program(receiver: Receiver, *command: str, ready: bool = True) -> Generator[Program]:
    """Run a program inside the block; it has recorded a request when the block begins."""
    with subprocess.Popen(
        command,
        env=environment(LATSPAN_ENDPOINT=receiver.url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = threading.Timer(DEADLINE_S, process.kill)
        deadline.start()
        try:
            if ready:
                await_readiness(process)
            yield process
        finally:
            deadline.cancel()
            process.kill()


def await_readiness(process: Program) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]


def waiting(how: str) -> tuple[str, ...]:
    return (sys.executable, str(PROGRAMS / "waits_for_a_signal.py"), how)


def python(text: str) -> tuple[str, ...]:
    # Python 3.12 warns of a fork while there are threads.
    return (*RUN, sys.executable, "-Wignore", "-c", text)


def ended(process: Program) -> tuple[int, str]:
    """Return the exit status and the standard error of a program that ends now."""
    _, errors = process.communicate(timeout=DEADLINE_S)
    return process.returncode, errors


def requests_of(receiver: Receiver) -> int:
    return [span.name for span in receiver.all_spans].count("answer")


@pytest.mark.repetitive
@pytest.mark.parametrize("how", ["is busy", "sleeps", "reads"])
def test_a_program_ends_by_the_signal_and_exports_everything(how: str) -> None:
    """Whatever its main thread does at that moment, ten times out of ten."""
    with receiving() as receiver, ExitStack() as running:
        processes = [
            running.enter_context(program(receiver, *RUN, *waiting(how), ready=False))
            for _ in range(RUNS)
        ]
        for process in processes:
            await_readiness(process)
            process.terminate()
        assert [ended(process) for process in processes] == [(-signal.SIGTERM, "")] * RUNS

    assert requests_of(receiver) == RUNS
    assert len(receiver.metrics) == RUNS


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="the program reads the state of a mutex of glibc"
)
def test_a_program_ends_although_its_main_thread_cannot_handle_the_signal() -> None:
    """The main thread is blocked in C code, so Python runs no handler."""
    with receiving() as receiver, program(receiver, *RUN, *waiting("is stuck in C")) as process:
        process.terminate()
        assert ended(process) == (-signal.SIGTERM, "")

    assert requests_of(receiver) == 1


CHILD: Final = """
import ctypes, os, signal
import latspan
with latspan.request("answer"): pass
for _ in range(50):
    child = os.fork()
    if child == 0:
        signal.pause()
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
# Longer than the main thread has to handle a signal of its own.
ctypes.CDLL(None).usleep(900_000)
print(os.waitstatus_to_exitcode(status))
"""


def test_a_signal_to_a_child_ends_the_child_only() -> None:
    """The child inherits the handler, and is signalled before Python has finished the fork."""
    with (
        receiving() as receiver,
        program(receiver, *python(CHILD), ready=False) as process,
    ):
        assert process.communicate(timeout=DEADLINE_S) == (f"{-signal.SIGTERM}\n", "")

    assert process.returncode == 0
    assert requests_of(receiver) == 1


def test_a_program_that_configures_latspan_exports_everything() -> None:
    """``latspan.configure()`` in code has the same effect as ``latspan run``."""
    text = "import latspan; latspan.configure(); exec(open({!r}).read())"
    file = str(PROGRAMS / "waits_for_a_signal.py")
    command = (sys.executable, "-c", text.format(file), "sleeps")
    with receiving() as receiver, program(receiver, *command) as process:
        process.terminate()
        assert ended(process) == (-signal.SIGTERM, "")

    assert requests_of(receiver) == 1


SERVERS: Final = {
    "uvicorn": ("uvicorn", "serves_anything:asgi", "--port={port}"),
    "uvicorn, 2 workers": ("uvicorn", "serves_anything:asgi", "--port={port}", *TWO_OF_UVICORN),
    "gunicorn, sync": ("gunicorn", "serves_anything:wsgi", "--bind=127.0.0.1:{port}", "-w2"),
    "gunicorn, gthread": (
        *("gunicorn", "serves_anything:wsgi", "--bind=127.0.0.1:{port}", "-w2"),
        *("--worker-class=gthread", "--threads=2"),
    ),
}
ASKED: Final = {"uvicorn": 1, "uvicorn, 2 workers": 2, "gunicorn, sync": 2, "gunicorn, gthread": 1}
"""Number of workers that a request certainly reaches: one of gthread may take both requests."""


def status_of(server: str, port: int, folder: Path, *under: str, **variables: str) -> int:
    """Start a server, send requests to its workers, end it, and return its exit status."""
    name, *arguments = SERVERS[server]
    pytest.importorskip(name, reason=f"{name} is not installed")
    folder.mkdir()
    command = [name, *(each.format(port=port) for each in arguments)]
    with serving(folder / "log", *under, *command, **variables) as process:
        ask_every_worker(port, folder, workers=ASKED[server])
    return process.returncode


@pytest.mark.repetitive
@pytest.mark.parametrize("server", SERVERS)
def test_the_workers_of_a_server_export_everything(server: str, tmp_path: Path) -> None:
    """The server ends with the status that it has without latspan, ten times out of ten."""
    first, *ports = free_ports(1 + RUNS)
    plain = status_of(server, first, tmp_path / "plain")
    with receiving() as receiver, ThreadPoolExecutor(AT_ONCE) as pool:

        def under_latspan(port: int) -> int:
            under = ("latspan", "run", "--", sys.executable, "-m")
            folder = tmp_path / str(port)
            return status_of(server, port, folder, *under, LATSPAN_ENDPOINT=receiver.url)

        statuses = list(pool.map(under_latspan, ports))

    assert statuses == [plain] * RUNS
    assert requests_of(receiver) == RUNS * ASKED[server]


class Arriving(list[ExportTraceServiceRequest]):
    """Stored requests; a test can wait for the first."""

    def __init__(self) -> None:
        super().__init__()
        self.first = threading.Event()

    def append(self, sent: ExportTraceServiceRequest, /) -> None:
        """Store a request."""
        super().append(sent)
        self.first.set()


@pytest.fixture
def unshare() -> tuple[str, ...]:
    """The command that runs a program as process 1 of a namespace."""
    command = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    tried = subprocess.run([*command, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"namespaces cannot be created: {tried.stderr.strip()}")
    return command


def inside(process: Program) -> int:
    """Return the ID, in this namespace, of the program that ``unshare`` runs."""
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


@pytest.mark.repetitive
def test_process_1_of_a_container_exports_everything_and_goes_on(unshare: tuple[str, ...]) -> None:
    """The kernel does not end it by SIGTERM, so latspan does not either, ten times out of ten."""
    for _ in range(RUNS):
        with (
            receiving() as receiver,
            program(receiver, *unshare, *RUN, *waiting("answers")) as process,
        ):
            receiver.traces = arriving = Arriving()
            os.kill(inside(process), signal.SIGTERM)
            assert arriving.first.wait(DEADLINE_S)

            assert process.communicate("still here\n", DEADLINE_S) == ("still here\n", "")
            assert process.returncode == 0
            assert requests_of(receiver) == 1


HANDLED: Final = """
import signal, sys, time
import latspan
with latspan.request("answer"): pass
def own(number, frame):
    print("own handler", flush=True)
    sys.exit(3)
WHAT
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("what", "status", "printed"),
    [
        ("signal.signal(signal.SIGTERM, own)", 3, "own handler\n"),
        ("signal.signal(signal.SIGTERM, signal.SIG_DFL)", -signal.SIGTERM, ""),
    ],
)
def test_a_programs_own_handler_replaces_latspans(what: str, status: int, printed: str) -> None:
    """Its handler runs alone; the default action, set explicitly, ends the program at once."""
    command = python(HANDLED.replace("WHAT", what))
    with receiving() as receiver, program(receiver, *command) as process:
        process.terminate()
        assert process.communicate(timeout=DEADLINE_S) == (printed, "")

    assert process.returncode == status
    assert requests_of(receiver) == (1 if status == 3 else 0)


def test_an_ignored_signal_is_ignored() -> None:
    """Also if the program inherited that."""
    text = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); import os, sys"
    starts = f"{text}; os.execv(sys.argv[1], sys.argv[1:])"
    command = (sys.executable, "-c", starts, *RUN, *waiting("answers"))
    with receiving() as receiver, program(receiver, *command) as process:
        process.terminate()
        assert process.communicate("still here\n", DEADLINE_S) == ("still here\n", "")

    assert process.returncode == 0


PARENT: Final = """
import multiprocessing, sys, time
import latspan

def work(ready):
    with latspan.request("answer"): pass
    ready.set()
    time.sleep(600)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    ready = context.Event()
    child = context.Process(target=work, args=(ready,))
    child.start()
    ready.wait()
    child.terminate()
    child.join()
    print(child.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_terminated_child_exports_everything(method: str, tmp_path: Path) -> None:
    """``Process.terminate`` sends SIGTERM; the parent sees the same exit code."""
    (tmp_path / "parent.py").write_text(PARENT)
    command = (*RUN, sys.executable, str(tmp_path / "parent.py"), method)
    with receiving() as receiver, program(receiver, *command, ready=False) as process:
        assert process.communicate(timeout=DEADLINE_S) == (f"{-signal.SIGTERM}\n", "")

    assert requests_of(receiver) == 1


INTERRUPTED: Final = """
import os, signal
import latspan

def interrupt(number, frame):
    if frame.f_globals["__name__"].startswith("latspan."):
        os.kill(os.getpid(), signal.SIGTERM)
        raise KeyboardInterrupt

with latspan.request("answer"): pass
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.02)
signal.raise_signal(signal.SIGTERM)
"""


def test_other_signals_do_not_interrupt_the_export() -> None:
    """Neither a second SIGTERM nor an exception of another handler, for example of Ctrl-C."""
    with receiving() as receiver, program(receiver, *python(INTERRUPTED), ready=False) as process:
        assert ended(process) == (-signal.SIGTERM, "")

    assert requests_of(receiver) == 1


LOCKED: Final = """
import os, signal
import latspan
from latspan import Kind
from latspan._live.process.runtime import current_runtime
from latspan.integrations import Outcome
from latspan.testing import RequestRecord

with latspan.request("answer"): pass
runtime = current_runtime()
recorder = runtime.recorder
signals = []

def interrupt():
    # The worker waits for the lock that this thread holds.
    runtime.enqueue(recorder.drain)
    while not recorder._awaited:
        os.sched_yield()
    signals.append(os.getpid())
    signal.raise_signal(signal.SIGTERM)

class Interrupting(dict):
    def items(self):
        if not signals:
            # As if the code that calls this method were interrupted.
            exec("interrupt()", {"__name__": "latspan._model.recording", "interrupt": in_latspan})
        return super().items()

of_latspan = {**globals(), "__name__": "latspan._model.recording"}
in_latspan = type(interrupt)(interrupt.__code__, of_latspan)
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
signal.pause()
"""


def test_a_signal_that_interrupts_latspan_waits_for_it() -> None:
    """The export needs the recorder, which the interrupted main thread holds."""
    with receiving() as receiver, program(receiver, *python(LOCKED), ready=False) as process:
        assert ended(process) == (-signal.SIGTERM, "")

    assert requests_of(receiver) == 1
    assert receiver.all_metrics


PROVIDER: Final = """
import os, signal, sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
import latspan

provider = TracerProvider()
exporter = OTLPSpanExporter(os.environ["LATSPAN_ENDPOINT"] + "/v1/traces")
provider.add_span_processor(BatchSpanProcessor(exporter))
trace.set_tracer_provider(provider)
with latspan.request("answer"): pass
signal.raise_signal(signal.SIGTERM)
"""


def test_the_applications_provider_is_flushed() -> None:
    """It holds latspan's spans, and would lose them."""
    with receiving() as receiver, program(receiver, *python(PROVIDER), ready=False) as process:
        assert ended(process) == (-signal.SIGTERM, "")

    assert requests_of(receiver) == 1


def test_a_program_that_recorded_nothing_ends_at_once() -> None:
    """Even if its main thread never runs a handler: the default action is still in effect."""
    text = """
import ctypes
mutex, c = ctypes.create_string_buffer(128), ctypes.CDLL(None)
c.pthread_mutex_lock(mutex)
print("ready", flush=True)
c.pthread_mutex_lock(mutex)
"""
    with receiving() as receiver, program(receiver, *python(text)) as process:
        process.terminate()
        assert ended(process) == (-signal.SIGTERM, "")

    assert (receiver.traces, receiver.metrics) == ([], [])
