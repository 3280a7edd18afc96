"""A server on the loopback interface that writes scripted replies and records each instant."""

from __future__ import annotations

import queue
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from latspan.testing._http import HttpRequest, RequestReader, encode_chunk, encode_head

# With a linger time of 0, closing sends a reset instead of an orderly end.
_LINGER_RESET: Final = struct.pack("ii", 1, 0)


_LOOKS_UP_S: Final = 0.02
"""Interval at which a thread that waits for a turn checks whether the server was stopped."""


class ConnectionEnding(Enum):
    """What happens to a connection after a reply."""

    KEEP = auto()
    CLOSE = auto()
    RESET = auto()


@dataclass(frozen=True, slots=True)
class Reply:
    """
    The reply to one request.

    Args:
        parts: Bytes, one item per write.
        after_s: Seconds from the request's last byte to the first part.
        gap_s: Seconds between two parts.
        ending: What happens to the connection afterwards.
        turns: A semaphore that the client releases; each part except the first acquires it.
    """

    parts: tuple[bytes, ...]
    after_s: float = 0
    gap_s: float = 0
    ending: ConnectionEnding = ConnectionEnding.KEEP
    turns: threading.Semaphore | None = None


def whole(
    body: bytes = b"ok",
    *,
    status: int = 200,
    after_s: float = 0,
    ending: ConnectionEnding = ConnectionEnding.KEEP,
    **headers: str,
) -> Reply:
    """Return a reply of known length: head and body, one write each."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    head = encode_head(status, {**named, "content-length": str(len(body))})
    return Reply((head, body) if body else (head,), after_s=after_s, ending=ending)


def chunked(
    *parts: bytes,
    gap_s: float = 0,
    ending: ConnectionEnding = ConnectionEnding.KEEP,
    cut: bool = False,
    **headers: str,
) -> Reply:
    """
    Return a chunked reply, one write per chunk.

    Args:
        parts: The chunks.
        gap_s: Seconds between two chunks.
        ending: What happens to the connection afterwards.
        cut: Whether the end of the body is missing.
        headers: Further headers, with underscores for hyphens.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    head = encode_head(200, {**named, "transfer-encoding": "chunked"})
    last = () if cut else (b"0\r\n\r\n",)
    return Reply((head, *map(encode_chunk, parts), *last), gap_s=gap_s, ending=ending)


@dataclass(slots=True)
class Visit:
    """
    One request as the server saw it. Instants are ``CLOCK_MONOTONIC``, in nanoseconds.

    Args:
        connection: Number of the connection, from 0.
        request: The request.
        handshake_ns: Start and end of the TLS handshake.
        accepted_ns: Arrival of the request's last byte.
        written_ns: Instant before each write.
    """

    connection: int
    request: HttpRequest
    handshake_ns: tuple[int, int] | None
    accepted_ns: int
    written_ns: list[int] = field(default_factory=list[int])


class Loopback:
    """
    A server that answers each request, on any connection, with the next reply.

    It accepts a request for a tunnel without using a reply, and connects it to the requested host.

    Args:
        replies: The replies, in order; after the last one, the server closes the connection.
        tls: TLS context of the server; ``None`` for plain HTTP.
        handshake_s: Delay before a TLS handshake, in seconds.
        tunnel_after_s: Delay before the response to a tunnel request, in seconds.
        tunnel_status: Status of that response; any other than 200 refuses the tunnel.
        unix: Path of a Unix socket to listen on instead.
    """

    def __init__(
        self,
        replies: Iterable[Reply],
        *,
        tls: ssl.SSLContext | None = None,
        handshake_s: float = 0,
        tunnel_after_s: float = 0,
        tunnel_status: int = 200,
        unix: Path | None = None,
    ) -> None:
        self._replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        for reply in replies:
            self._replies.put(reply)
        self._context = tls
        self._handshake_s = handshake_s
        self._tunnel_after_s = tunnel_after_s
        self._tunnel_status = tunnel_status
        self._unix = unix
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self.visits: list[Visit] = []
        """The requests so far, in order."""
        self.tunnels: list[tuple[int, int]] = []
        """Arrival and answer of each tunnel request: ``CLOCK_MONOTONIC``, in nanoseconds."""
        self.connections = 0
        """Number of connections so far."""
        self.port = 0

    def __enter__(self) -> Self:
        """Listen."""
        if self._unix is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.port = self._listener.getsockname()[1]
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(self._unix))
            self._listener.listen()
        self._start(self._accept)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every connection and wait for its thread."""
        self._stop.set()
        with suppress(OSError):
            # Closing alone does not wake a thread that is blocked in `accept`.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join()

    @property
    def secure(self) -> bool:
        """Whether it uses TLS."""
        return self._context is not None

    @property
    def url(self) -> str:
        """URL of the server, with an address that needs no look-up."""
        return f"{'http' if self._context is None else 'https'}://127.0.0.1:{self.port}"

    def _start(self, target: Callable[..., object], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._unix is None:
                # With Nagle's algorithm, a write may wait for the acknowledgement of the previous
                # one.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.append(connection)
            self.connections += 1
            self._start(self._serve, connection, self.connections - 1)

    def _serve(self, connection: socket.socket, number: int) -> None:
        with ExitStack() as opened, suppress(OSError):
            opened.enter_context(connection)
            handshake_ns: tuple[int, int] | None = None
            if self._context is not None:
                begun_ns = time.perf_counter_ns()
                self._stop.wait(self._handshake_s)
                connection = opened.enter_context(
                    self._context.wrap_socket(connection, server_side=True)
                )
                self._open.append(connection)
                handshake_ns = (begun_ns, time.perf_counter_ns())
            reader = RequestReader()
            while data := connection.recv(65536):
                accepted_ns = time.perf_counter_ns()
                for request in reader.feed(data):
                    if request.method == "CONNECT":
                        self._tunnel(connection, request)
                        return
                    visit = Visit(number, request, handshake_ns, accepted_ns)
                    self.visits.append(visit)
                    if not self._answer(connection, visit):
                        return

    def _answer(self, connection: socket.socket, visit: Visit) -> bool:
        """Write the next reply; return whether the connection stays open."""
        try:
            reply = self._replies.get_nowait()
        except queue.Empty:
            return False
        self._stop.wait(reply.after_s)
        for at, part in enumerate(reply.parts):
            if at:
                self._stop.wait(reply.gap_s)
                if reply.turns is not None and not self._takes_turn(reply.turns):
                    return False
            visit.written_ns.append(time.perf_counter_ns())
            connection.sendall(part)
        if reply.ending is ConnectionEnding.RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        return reply.ending is ConnectionEnding.KEEP

    def _takes_turn(self, turns: threading.Semaphore) -> bool:
        """Wait for a turn; return ``False`` if the server was stopped first."""
        while not turns.acquire(timeout=_LOOKS_UP_S):
            if self._stop.is_set():
                return False
        return True

    def _tunnel(self, connection: socket.socket, request: HttpRequest) -> None:
        asked_ns = time.perf_counter_ns()
        self._stop.wait(self._tunnel_after_s)
        self.tunnels.append((asked_ns, time.perf_counter_ns()))
        if self._tunnel_status != 200:
            connection.sendall(encode_head(self._tunnel_status, {"content-length": "0"}))
            return
        host, _, port = request.path.rpartition(":")
        with socket.create_connection((host, int(port))) as target:
            self._open.append(target)
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pump, args=(target, connection), daemon=True)
            back.start()
            _pump(connection, target)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
