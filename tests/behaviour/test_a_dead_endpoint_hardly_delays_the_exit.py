"""An endpoint that accepts nothing delays the end of a process by at most two seconds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Literal

import pytest

from support.receivers import Refusal, refusing
from support.stillness import when_still

RUN: Final = (sys.executable, "-m", "latspan", "run", "--")
DEADLINE_S: Final = 60.0

CEILING_S: Final = 4.0
"""
Twice the promised delay, because a busy machine needs time of its own. Without a limit for dead
endpoints, the delay is 5 s: the general limit of a shutdown.
"""

SIGNALS: Final = 2
"""Spans and metrics."""

RECORDS: Final = """
import os, sys, time
import latspan
with latspan.request("answer"): pass
print("ready", flush=True)
try:
    WAITS
finally:
    print(time.time(), flush=True)
"""


@dataclass(slots=True)
class Dead:
    """
    A dead endpoint.

    Args:
        port: Its port on loopback.
        attempts: The connections that were made to it.
    """

    port: int
    attempts: list[socket.socket] = field(default_factory=list[socket.socket])


@contextmanager
def resetting() -> Generator[Dead]:
    """Accept each connection and reset it immediately: a refusal that can be counted."""
    with accepting(lambda client: client.close()) as dead:
        yield dead


@contextmanager
def silent() -> Generator[Dead]:
    """Accept connections and never answer."""
    with accepting(lambda _: None) as dead:
        yield dead


@contextmanager
def accepting(then: Callable[[socket.socket], object]) -> Generator[Dead]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = Dead(listener.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                dead.attempts.append(client)
                then(client)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield dead
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for client in dead.attempts:
                client.close()


@contextmanager
def unroutable() -> Generator[Dead]:
    """Drop every packet that opens a connection: the queue of the listener is full."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            client = sockets.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield Dead(listener.getsockname()[1])


@contextmanager
def closed() -> Generator[Dead]:
    """Refuse connections: the port is not open."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield Dead(probe.getsockname()[1])


WAYS: Final = {
    "end": ("sys.stdin.read()", None, 0),
    "SIGTERM": ("os.read(os.pipe()[0], 1)", signal.SIGTERM, -signal.SIGTERM),
    "Ctrl-C": ("os.read(os.pipe()[0], 1)", signal.SIGINT, -signal.SIGINT),
}

Protocol = Literal["http/protobuf", "grpc"]
Delay = tuple[float, str]
"""Time from the end of a program to that of its process, in seconds, and its messages."""


def delay_of(
    dead: Dead,
    way: str,
    protocol: Protocol = "http/protobuf",
    *,
    await_others: Callable[[], object] = lambda: None,
) -> Delay:
    """Run a program that ends after ``await_others`` has returned."""
    waits, number, status = WAYS[way]
    ours = ("OTEL_", "LATSPAN_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    with subprocess.Popen(
        [*RUN, sys.executable, "-c", RECORDS.replace("WAITS", waits)],
        env={
            **kept,
            "LATSPAN_ENDPOINT": f"http://127.0.0.1:{dead.port}",
            "LATSPAN_PROTOCOL": protocol,
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            await_others()
            began_s = time.time()
            if number is not None:
                process.send_signal(number)
            # This closes its standard input.
            out, errors = process.communicate(timeout=DEADLINE_S)
            ended_s = time.time()
        finally:
            process.kill()
    assert process.returncode == status
    # The `finally` clause does not run at SIGTERM, nor if Ctrl-C comes before the `try`.
    return ended_s - (float(out) if out.strip() else began_s), errors


ENDPOINTS: Final = {"closed": closed, "silent": silent, "unroutable": unroutable}
CASES: Final[tuple[tuple[str, str, Protocol], ...]] = (
    *product(ENDPOINTS, WAYS, ("http/protobuf",)),
    *product(ENDPOINTS, ("end",), ("grpc",)),
)


def all_delays() -> dict[tuple[str, str, Protocol], Delay]:
    with ExitStack() as stack:
        dead = {name: stack.enter_context(opened()) for name, opened in ENDPOINTS.items()}
        all_ready = threading.Barrier(len(CASES), timeout=DEADLINE_S)
        threads = stack.enter_context(ThreadPoolExecutor(len(CASES)))
        running = {
            case: threads.submit(delay_of, dead[case[0]], *case[1:], await_others=all_ready.wait)
            for case in CASES
        }
        return {case: delay.result() for case, delay in running.items()}


@pytest.fixture(scope="module")
def delays() -> dict[tuple[str, str, Protocol], Delay]:
    """Delays of programs that end at the same time, because most of a delay is waiting."""
    return when_still(all_delays)


@pytest.mark.alone
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_dead_endpoint_delays_the_exit_by_two_seconds_at_most(
    endpoint: str, way: str, delays: dict[tuple[str, str, Protocol], Delay]
) -> None:
    """However the process ends; one line counts what was lost."""
    took_s, errors = delays[endpoint, way, "http/protobuf"]

    assert took_s < CEILING_S
    lost = "latspan: Dropped 1 spans that could not be exported before shutdown"
    assert errors.splitlines().count(lost) == 1


@pytest.mark.alone
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_dead_endpoint_delays_an_export_over_grpc_as_little(
    endpoint: str, delays: dict[tuple[str, str, Protocol], Delay]
) -> None:
    """Its exporter has a retry loop of its own."""
    took_s, errors = delays[endpoint, "end", "grpc"]

    assert took_s < CEILING_S
    assert "Dropped 1 spans that could not be exported before shutdown" in errors


@pytest.mark.parametrize("way", WAYS)
def test_a_receiver_that_was_never_reached_gets_one_attempt(way: str) -> None:
    """The exporter opens a second connection at once if the first one was closed."""
    with resetting() as dead:
        delay_of(dead, way)

    assert len(dead.attempts) <= 2 * SIGNALS


def test_a_silent_receiver_gets_one_attempt() -> None:
    """It may have received the data, and would receive it twice."""
    with refusing("http/protobuf", Refusal(None)) as receiver:
        delay_of(Dead(int(receiver.url.rpartition(":")[2])), "end")

    assert (len(receiver.asked), len(receiver.asked_metrics)) == (1, 1)
