"""Exporters are created on a thread of their own, and nothing is lost by it."""

from __future__ import annotations

import signal
import sys
import threading

import pytest

import latspan
from latspan._base.clock import SystemClock
from latspan._live.process.loading import DeferredExporter, DeferredIntervalExporter, Loader
from latspan._live.sdk._endpoints import Protocol
from latspan._live.sdk._exporters import check_exporter
from latspan._model.recording import Recorder, RequestRecord, Snapshot
from latspan.errors import ConfigError
from support.receivers import refusing
from support.records import RECORD
from support.snippets import run_text

HELD_BACK = """
import os, threading
from support.held_imports import hold

# The main thread needs it for a span, and would wait for a loader that is held back before it.
import latspan._live.otel.export._private_spans

go_on = hold("{held}")
import latspan
latspan.configure(endpoint="{endpoint}", protocol="{protocol}")
"""

ENDS_AT_ONCE = """
{records}
# Runs before latspan's own hook.
threading._register_atexit(go_on.set)
"""

IS_INTERRUPTED = (
    ENDS_AT_ONCE
    + """
raise KeyboardInterrupt
"""
)

LOADS_SLOWLY = """
import latspan._live.process.loading
latspan._live.process.loading._MAX_WAIT_S = 0.0
# The imports go on once the interpreter has begun to wait for them.
def held_back():
    threading.Timer(0.5, go_on.set).start()
threading._register_atexit(held_back)
raise KeyboardInterrupt
"""

FORKS_AT_ONCE = """
# Runs before latspan's own hook.
os.register_at_fork(before=go_on.set)
if os.fork() == 0:
    import requests
    print("imported", flush=True)
    os._exit(0)
os.wait()
"""


def program(
    end: str, *, held: str, endpoint: str, protocol: str = "http/protobuf", records: str = ""
) -> str:
    """Return a program whose other threads cannot import ``held`` before its end."""
    values = {"held": held, "endpoint": endpoint, "protocol": protocol, "records": records}
    text = HELD_BACK + end
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


RECORDS = "with latspan.request('answer'): pass"


STARTS_THREADS_AT_THE_END = pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 2),
    reason="CPython 3.12.0 and 3.12.1 start no thread at the end of a program",
)


@STARTS_THREADS_AT_THE_END
@pytest.mark.parametrize(
    ("protocol", "held", "records"),
    [
        ("http/protobuf", "opentelemetry.sdk.metrics", RECORDS),
        ("http/protobuf", "urllib3", RECORDS),
        ("http/protobuf", "urllib3", ""),
        ("grpc", "grpc", RECORDS),
    ],
)
def test_a_program_may_end_before_the_exporters_are_loaded(
    protocol: Protocol, held: str, records: str
) -> None:
    """What it has recorded is exported; the interpreter waits for the imports."""
    with refusing(protocol, None) as collector:
        done = run_text(
            program(
                ENDS_AT_ONCE,
                held=held,
                endpoint=collector.url,
                protocol=protocol,
                records=records,
            )
        )

    assert done.stderr == ""
    spans = [span.name for span in collector.taken.all_spans if not span.parent_span_id]
    assert spans == (["answer"] if records else [])
    assert bool(collector.taken.all_metrics) is bool(records)


def test_an_interrupted_program_keeps_its_exit_status() -> None:
    """Imports that run while the program ends would change it from SIGINT to 1."""
    text = program(IS_INTERRUPTED, held="urllib3", endpoint="http://127.0.0.1:9")

    assert run_text(text, check=False).returncode == -signal.SIGINT


@STARTS_THREADS_AT_THE_END
def test_the_end_waits_longer_than_a_fork() -> None:
    """On a busy machine, the imports take longer than what a fork waits at most."""
    text = program(LOADS_SLOWLY, held="urllib3", endpoint="http://127.0.0.1:9")

    assert run_text(text, check=False).returncode == -signal.SIGINT


def test_a_fork_waits_until_the_exporters_are_loaded() -> None:
    """Otherwise the child's import would wait forever for the lock of a thread it does not have."""
    done = run_text(program(FORKS_AT_ONCE, held="requests", endpoint="http://127.0.0.1:9"))

    assert done.stdout == "imported\n"


ENDS_SLOWLY = """
import ctypes, os, threading
import latspan
from latspan._live.process.loading import Loader

# At its end, the operating system calls usleep(500_000) on each thread with a value for this key.
libc, key = ctypes.CDLL(None), ctypes.c_uint()
assert libc.pthread_key_create(ctypes.byref(key), libc.usleep) == 0
native = []
def load():
    native.append(threading.get_native_id())
    libc.pthread_setspecific(key, ctypes.c_void_p(500_000))
loader = Loader([], [load])
loader.start()
if os.fork() == 0:
    print(os.path.exists(f"/proc/{os.getppid()}/task/{native[0]}"), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the threads of a process are in /proc")
def test_a_fork_waits_until_the_loader_has_left_the_process() -> None:
    """A thread that used OpenSSL holds one of its locks while it ends."""
    assert run_text(ENDS_SLOWLY).stdout == "False\n"


STARTS_AFTER_A_FORK = """
import os, threading
from latspan._live.process import loading

loading._wait_at_fork_and_exit()
thread = threading.Thread(target=lambda: None)
loading._threads.add(thread)
if os.fork() == 0:
    os._exit(0)
os.wait()
print(thread in loading._threads)
"""


def test_a_fork_just_before_the_loader_starts_does_not_forget_it() -> None:
    """Otherwise the next fork would not wait for its imports."""
    assert run_text(STARTS_AFTER_A_FORK).stdout == "True\n"


class Destination:
    """An interval exporter that accepts everything."""

    local = False
    lost = 0

    def __init__(self) -> None:
        self.sent = 0
        self.shut_down = False

    def send(self, interval: Snapshot, *, last: bool) -> bool:  # noqa: ARG002 - the protocol's
        """Count the interval."""
        self.sent += 1
        return True

    def shutdown(self, timeout_s: float) -> None:  # noqa: ARG002 - the protocol's
        """Record that nothing more is sent."""
        self.shut_down = True


def interval(*records: RequestRecord) -> Snapshot:
    recorder = Recorder(SystemClock())
    for record in records:
        recorder.record(record)
    return recorder.swap_interval()


def test_an_exporter_is_created_once_and_for_values_only() -> None:
    """A program that records nothing does not wait for it at its end."""
    made: list[Destination] = []

    def make() -> Destination:
        made.append(Destination())
        return made[-1]

    exporter = DeferredIntervalExporter(DeferredExporter("values", make))

    assert exporter.send(interval(), last=True)
    exporter.shutdown(1)
    assert made == []
    assert exporter.send(interval(RECORD), last=False)
    assert exporter.send(interval(), last=True)
    exporter.shutdown(1)
    assert [(each.sent, each.shut_down) for each in made] == [(2, True)]


def test_an_exporter_that_cannot_be_created_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing has been delivered then, and creating it is tried again."""
    attempts: list[None] = []

    def make() -> Destination:
        attempts.append(None)
        raise ValueError("it does not start")

    exporter = DeferredIntervalExporter(DeferredExporter("unloadable values", make))

    assert not exporter.send(interval(RECORD), last=False)
    assert not exporter.send(interval(RECORD), last=True)
    exporter.shutdown(1)
    assert len(attempts) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "unloadable values are not exported: their exporter could not be created: it does not start"
    ]


def test_the_loader_goes_on_after_an_error_and_stops_after_the_current_step() -> None:
    """What is not begun then is loaded by the thread that needs it."""
    steps: list[str] = []
    is_loading, may_go_on = threading.Event(), threading.Event()

    def fail() -> None:
        steps.append("fails")
        raise ValueError

    def load() -> None:
        steps.append("loads")
        is_loading.set()
        assert may_go_on.wait(30)
        steps.append("loaded")

    loader = Loader([], [fail, load, lambda: steps.append("too late")])
    loader.start()
    assert is_loading.wait(30)
    loader.stop(0)
    may_go_on.set()
    loader.stop(30)

    assert steps == ["fails", "loads", "loaded"]


WRONG: dict[str, tuple[Protocol, dict[str, str], str]] = {
    "a timeout": (
        "grpc",
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"},
        "OTEL_EXPORTER_OTLP_TIMEOUT is 'soon', which is not a number",
    ),
    "a signal's timeout": (
        "grpc",
        {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "5 s"},
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT is '5 s', which is not a number",
    ),
    "credentials": (
        "http/protobuf",
        {"OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER": "nobody"},
        "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER is 'nobody'",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_variable_that_an_exporter_rejects_is_found_before(wrong: str) -> None:
    """Without importing the exporter."""
    protocol, environment, message = WRONG[wrong]

    with pytest.raises(ConfigError) as caught:
        check_exporter("traces", protocol, environment)

    assert message in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("protocol", "package", "hint"),
    [
        ("http/protobuf", "requests", "pip install requests"),
        ("grpc", "grpc", "pip install grpcio"),
        (
            "grpc",
            "opentelemetry.exporter.otlp.proto.grpc",
            "pip install opentelemetry-exporter-otlp-proto-grpc",
        ),
    ],
)
def test_a_missing_package_is_an_error_of_configure(
    monkeypatch: pytest.MonkeyPatch, protocol: Protocol, package: str, hint: str
) -> None:
    """It names the package and the command that installs it."""
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ConfigError, match=f"there is no package '{package}'") as caught:
        latspan.configure(endpoint="http://127.0.0.1:9", protocol=protocol)

    assert caught.value.hint == hint
