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
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
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
    "end": ("pass", None, 0),
    "SIGTERM": ("os.read(os.pipe()[0], 1)", signal.SIGTERM, -signal.SIGTERM),
    "Ctrl-C": ("os.read(os.pipe()[0], 1)", signal.SIGINT, -signal.SIGINT),
}


def delay_s(
    dead: Dead, way: str, protocol: Literal["http/protobuf", "grpc"] = "http/protobuf"
) -> tuple[float, str]:
    """Return the time from the end of a program to that of its process, and its messages."""
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
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            began_s = time.time()
            if number is not None:
                process.send_signal(number)
            out, errors = process.communicate(timeout=DEADLINE_S)
            ended_s = time.time()
        finally:
            process.kill()
    assert process.returncode == status
    # The `finally` clause does not run at SIGTERM, nor if Ctrl-C comes before the `try`.
    return ended_s - (float(out) if out.strip() else began_s), errors


@pytest.mark.alone
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("endpoint", [closed, silent, unroutable])
def test_a_dead_endpoint_delays_the_exit_by_two_seconds_at_most(
    endpoint: Callable[[], AbstractContextManager[Dead]], way: str
) -> None:
    """However the process ends; one line counts what was lost."""
    with endpoint() as dead:
        took_s, errors = when_still(lambda: delay_s(dead, way))

    assert took_s < CEILING_S
    lost = "Dropped 1 spans that could not be exported before shutdown"
    assert errors.splitlines().count(lost) == 1


@pytest.mark.alone
@pytest.mark.parametrize("endpoint", [closed, silent, unroutable])
def test_a_dead_endpoint_delays_an_export_over_grpc_as_little(
    endpoint: Callable[[], AbstractContextManager[Dead]],
) -> None:
    """Its exporter has a retry loop of its own."""
    with endpoint() as dead:
        took_s, errors = when_still(lambda: delay_s(dead, "end", "grpc"))

    assert took_s < CEILING_S
    assert "Dropped 1 spans that could not be exported before shutdown" in errors


@pytest.mark.parametrize("way", WAYS)
def test_a_receiver_that_was_never_reached_gets_one_attempt(way: str) -> None:
    """The exporter opens a second connection at once if the first one was closed."""
    with resetting() as dead:
        delay_s(dead, way)

    assert len(dead.attempts) <= 2 * SIGNALS


def test_a_silent_receiver_gets_one_attempt() -> None:
    """It may have received the data, and would receive it twice."""
    with refusing("http/protobuf", Refusal(None)) as receiver:
        delay_s(Dead(int(receiver.url.rpartition(":")[2])), "end")

    assert (len(receiver.asked), len(receiver.asked_metrics)) == (1, 1)
