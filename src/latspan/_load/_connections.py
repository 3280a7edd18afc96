"""
Connections to one server: opened, reused and stamped.

**Why not a client library.** Under load the client decides how exact a measurement is: time that
it spends per chunk delays the stamps of every other stream. A client library wakes a task for each
chunk; here the event loop passes the bytes of a chunk to the response directly, and its arrival is
the first instant that is read. `benchmarks/load_client.py` compares the clients.

**States.** A connection is busy from :meth:`Connection.send` until its response is complete; then
it is idle in the pool, if both sides keep it open. A response ends once: with its last byte, with
an error, or because its caller abandons it. Whatever happens to the connection afterwards does not
concern that response.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from latspan._load._response_reader import MalformedResponseError, ResponseReader
from latspan._segments import SegmentName

if TYPE_CHECKING:
    from latspan._instrument import Attempt

__all__ = ["Connection", "ConnectionClosedError", "ConnectionPool", "Receiver"]

_Address = tuple[
    int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]
"""One result of ``getaddrinfo``."""


class ConnectionClosedError(ConnectionError):
    """The server closed the connection before the response was complete."""


class Receiver(Protocol):
    """Receives one response. Only its first call of ``ended`` or ``failed`` counts."""

    def sent(self) -> None:
        """Record that the kernel has accepted the last byte of the request."""
        ...

    def head_received(self, status: int, headers: Mapping[str, str]) -> None:
        """Record the head of the response."""
        ...

    def body_received(self, data: bytes) -> None:
        """Record a part of the body, just after it arrived."""
        ...

    def ended(self) -> None:
        """Record that the response is complete."""
        ...

    def failed(self, error: Exception) -> None:
        """Record that no more of the response will arrive."""
        ...


class Connection(asyncio.Protocol):
    """
    One connection, which carries one request at a time.

    Args:
        release: Called with the connection when it can carry another request.
        lost: Called with the connection when it is closed.
    """

    def __init__(
        self, release: Callable[[Connection], None], lost: Callable[[Connection], None]
    ) -> None:
        self._release = release
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader()
        self._receiver: Receiver | None = None
        self.is_reused = False
        """Whether it has carried a request before the present one."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        # Then `resume_writing` is called as soon as the kernel has accepted everything.
        self._transport.set_write_buffer_limits(0)

    @property
    def is_open(self) -> bool:
        """Whether the connection can carry a request, as far as known."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes, receiver: Receiver) -> None:
        """Send a request; ``receiver`` gets its response."""
        transport = self._transport
        assert transport is not None  # noqa: S101 - the pool connects first
        self._reader = ResponseReader()
        self._receiver = receiver
        transport.write(request)
        if not transport.get_write_buffer_size():
            receiver.sent()

    def resume_writing(self) -> None:
        """Record the end of a request that the kernel did not accept at once."""
        if self._receiver is not None:
            self._receiver.sent()

    def data_received(self, data: bytes) -> None:
        """Pass data on to the receiver of the response."""
        receiver, reader = self._receiver, self._reader
        if receiver is None:
            # Nothing was requested, so the next response could not be told apart.
            self.abandon()
            return
        had_head = reader.head_is_complete
        try:
            body = reader.feed(data)
        except MalformedResponseError as error:
            self._fail(error)
            return
        if not had_head:
            if not reader.head_is_complete:
                return
            receiver.head_received(reader.status, reader.headers)
        if body:
            receiver.body_received(body)
        if reader.complete:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response in progress: complete if only the connection's end marks its end."""
        if self._receiver is not None:
            if exc is None and self._reader.end_of_connection():
                self._end()
            else:
                self._fail(exc or ConnectionClosedError("the server closed the connection"))
        self._lost(self)

    def abandon(self) -> None:
        """Close the connection at once; its receiver is not called any more."""
        self._receiver = None
        if self._transport is not None:
            self._transport.abort()

    def _end(self) -> None:
        receiver, self._receiver = self._receiver, None
        self.is_reused = True
        if self._reader.keeps_alive and self.is_open:
            self._release(self)
        elif self._transport is not None:
            self._transport.close()
        if receiver is not None:
            receiver.ended()

    def _fail(self, error: Exception) -> None:
        receiver = self._receiver
        self.abandon()
        if receiver is not None:
            receiver.failed(error)


class ConnectionPool:
    """
    Connections to one server; as many as there are requests at once.

    Args:
        host: Name or address of the server.
        port: Its port.
        tls: TLS settings, ``None`` for plain HTTP.
        reuse: Whether a connection carries further requests; otherwise each one opens its own.
    """

    def __init__(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None, reuse: bool = True
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._reuse = reuse
        # The last one used is taken first, so that the others can time out as they do elsewhere.
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()

    async def connection(
        self, attempt: Attempt, now: Callable[[], int], *, fresh: bool = False
    ) -> Connection:
        """
        Return an idle connection, or open one.

        Args:
            attempt: The attempt of the call; its instants are set.
            now: Clock of the call, monotonic nanoseconds.
            fresh: Whether to open one in any case.

        Raises:
            OSError: The server cannot be reached, or TLS failed.
        """
        attempt.pool_acquired_ns = now()
        while self._idle and not fresh:
            connection = self._idle.pop()
            if connection.is_open:
                attempt.reused = True
                return connection
        attempt.reused = False
        loop = asyncio.get_running_loop()
        attempt.phase = SegmentName.DNS
        addresses = await self._addresses(loop)
        attempt.dns_done_ns = now()
        attempt.phase = SegmentName.TCP
        sock = await _connected(loop, addresses)
        attempt.connected_ns = now()
        if self._tls is not None:
            attempt.phase = SegmentName.TLS
        connection = await self._begun(loop, sock)
        if self._tls is not None:
            attempt.tls_done_ns = now()
        return connection

    async def _addresses(self, loop: asyncio.AbstractEventLoop) -> Sequence[_Address]:
        try:
            # An IP address needs no look-up, so it needs no thread either.
            return socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except socket.gaierror:
            return await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)

    async def _begun(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> Connection:
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self._released, self._open.discard),
                sock=sock,
                ssl=self._tls,
                server_hostname=None if self._tls is None else self._host,
            )
        except BaseException:
            sock.close()
            raise
        self._open.add(connection)
        return connection

    def _released(self, connection: Connection) -> None:
        if self._reuse:
            self._idle.append(connection)
        else:
            connection.abandon()

    def close(self) -> None:
        """Close every connection; responses in progress are abandoned."""
        self._idle.clear()
        for connection in tuple(self._open):
            connection.abandon()


async def _connected(
    loop: asyncio.AbstractEventLoop, addresses: Sequence[_Address]
) -> socket.socket:
    """Return a socket connected to the first address that accepts, in the resolver's order."""
    failure: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = failure or error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure or OSError("the host has no address")
