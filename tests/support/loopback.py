"""A server on the loopback interface that writes what it is told to, and when it did what."""

from __future__ import annotations

import queue
import socket
import struct
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from latspan.testing._http import HttpRequest, RequestReader, encode_chunk, encode_head
from tests.support.tls import server_context

__all__ = ["Ending", "Loopback", "Reply", "Visit", "chunked", "whole"]

# On, after no time: closing then sends a reset instead of an orderly end.
_LINGER_RESET: Final = struct.pack("ii", 1, 0)


_LOOKS_UP_S: Final = 0.02
"""How often who waits for a turn looks whether the server was stopped."""


class Ending(Enum):
    """What becomes of a connection after a reply."""

    KEEP = auto()
    CLOSE = auto()
    RESET = auto()


@dataclass(frozen=True, slots=True)
class Reply:
    """
    What is written in answer to one request.

    Args:
        parts: Bytes, one write each.
        after_s: Seconds from the request's last byte to the first part.
        gap_s: Seconds between two parts.
        ending: What becomes of the connection.
        turns: Each part but the first waits for one, which the client releases.
    """

    parts: tuple[bytes, ...]
    after_s: float = 0
    gap_s: float = 0
    ending: Ending = Ending.KEEP
    turns: threading.Semaphore | None = None


def whole(
    body: bytes = b"ok",
    *,
    status: int = 200,
    after_s: float = 0,
    ending: Ending = Ending.KEEP,
    **headers: str,
) -> Reply:
    """Return a reply whose length is known: head and body, one write each."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    head = encode_head(status, {**named, "content-length": str(len(body))})
    return Reply((head, body) if body else (head,), after_s=after_s, ending=ending)


def chunked(
    *parts: bytes, gap_s: float = 0, ending: Ending = Ending.KEEP, cut: bool = False, **headers: str
) -> Reply:
    """
    Return a chunked reply, one write a chunk.

    Args:
        parts: The chunks.
        gap_s: Seconds between two of them.
        ending: What becomes of the connection.
        cut: Whether the end of the body is missing.
        headers: Further headers, underscores for hyphens.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    head = encode_head(200, {**named, "transfer-encoding": "chunked"})
    last = () if cut else (b"0\r\n\r\n",)
    return Reply((head, *map(encode_chunk, parts), *last), gap_s=gap_s, ending=ending)


@dataclass(slots=True)
class Visit:
    """
    One request as the server saw it. Instants are those of ``CLOCK_MONOTONIC``, nanoseconds.

    Args:
        connection: Number of the connection, from 0.
        request: The request.
        handshake_ns: When the TLS handshake was begun and over.
        accepted_ns: The request's last byte was there.
        written_ns: Before each write.
    """

    connection: int
    request: HttpRequest
    handshake_ns: tuple[int, int] | None
    accepted_ns: int
    written_ns: list[int] = field(default_factory=list[int])


class Loopback:
    """
    Answers each request, over whatever connection, with the next of the replies.

    A request for a tunnel is granted and uses up no reply: it leads to whom it names.

    Args:
        replies: What is answered, in order; a request beyond them finds the connection closed.
        secure: Whether it speaks TLS.
        handshake_s: Seconds for which it leaves a TLS handshake waiting.
        tunnel_after_s: Seconds for which it leaves a request for a tunnel waiting.
        tunnel_status: What it answers such a request; any but 200 refuses it.
        unix: Where to listen instead, a path in the file system.
    """

    def __init__(
        self,
        replies: Iterable[Reply],
        *,
        secure: bool = False,
        handshake_s: float = 0,
        tunnel_after_s: float = 0,
        tunnel_status: int = 200,
        unix: Path | None = None,
    ) -> None:
        self._replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        for reply in replies:
            self._replies.put(reply)
        self._context = server_context() if secure else None
        self._handshake_s = handshake_s
        self._tunnel_after_s = tunnel_after_s
        self._tunnel_status = tunnel_status
        self._unix = unix
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self.visits: list[Visit] = []
        """What was asked so far, in order."""
        self.tunnels: list[tuple[int, int]] = []
        """When each request for a tunnel was there and answered: ``CLOCK_MONOTONIC``, ns."""
        self.connections = 0
        """How many connections there were so far."""
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
            # Closing alone does not wake who waits in `accept`.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join()

    @property
    def secure(self) -> bool:
        """Whether it speaks TLS."""
        return self._context is not None

    @property
    def url(self) -> str:
        """Where it is, by an address that needs no look-up."""
        return f"{'http' if self._context is None else 'https'}://127.0.0.1:{self.port}"

    def _start(self, target: object, *args: object) -> None:
        assert callable(target)
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
                # Otherwise a write may wait for the acknowledgement of the one before.
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
        """Write the next reply; return whether the connection is kept."""
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
        if reply.ending is Ending.RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        return reply.ending is Ending.KEEP

    def _takes_turn(self, turns: threading.Semaphore) -> bool:
        """Wait for a turn; return whether there was one before the server was stopped."""
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
