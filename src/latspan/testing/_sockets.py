"""
Sockets without sockets: a scripted network in the shape that httpcore and httpcore2 plug in.

Both libraries call the same methods on what they are given and check no types, so one set of
classes serves both; only the errors differ.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

from latspan.testing._network import Failure, Network, NetworkFailureError, Pipe

__all__ = ["AsyncBackend", "AsyncStream", "Backend", "Errors", "Stream", "bare_ssl_context"]

Errors = Mapping[Failure, type[Exception]]
"""What a library raises for each failure."""


def bare_ssl_context() -> ssl.SSLContext:
    """
    Return a context that verifies nothing.

    The handshake is scripted, and loading the authorities of a real one costs 15 ms.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def _translated(errors: Errors) -> Generator[None]:
    try:
        yield
    except NetworkFailureError as error:
        raise errors[error.failure](str(error)) from None


class _Line:
    """
    What the two kinds of stream share.

    Args:
        network: The network of the transport.
        pipe: The connection.
        errors: What the library raises for each failure.
    """

    def __init__(self, network: Network, pipe: Pipe, errors: Errors) -> None:
        self._network = network
        self._pipe = pipe
        self._errors = errors

    def get_extra_info(self, info: str) -> object:
        """Return whether there is something to be read, for ``is_readable``; else nothing."""
        return self._pipe.readable if info == "is_readable" else None


class Stream(_Line):
    """A connection for a synchronous pool."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has arrived, waiting for it if nothing has."""
        with _translated(self._errors):
            return self._pipe.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send ``buffer``."""
        self._pipe.write(buffer)

    def close(self) -> None:
        """Close the connection."""
        self._pipe.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,  # noqa: ARG002
        server_hostname: str | None = None,  # noqa: ARG002
        timeout: float | None = None,
    ) -> Stream:
        """Let a handshake take its time; the bytes stay as they are."""
        with _translated(self._errors):
            self._network.shake_hands(timeout)
        return self


class AsyncStream(_Line):
    """A connection for an asynchronous pool."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Return what has arrived, waiting for it if nothing has."""
        if self._pipe.waits:
            # A wait is where other tasks run, and where a cancellation arrives.
            await asyncio.sleep(0)
        with _translated(self._errors):
            return self._pipe.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        """Send ``buffer``."""
        self._pipe.write(buffer)

    async def aclose(self) -> None:
        """Close the connection."""
        self._pipe.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,  # noqa: ARG002
        server_hostname: str | None = None,  # noqa: ARG002
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> AsyncStream:
        """Let a handshake take its time; the bytes stay as they are."""
        with _translated(self._errors):
            self._network.shake_hands(timeout)
        return self


class _Exchange:
    """
    What the two kinds of backend share.

    Args:
        network: The network to connect to.
        errors: What the library raises for each failure.
    """

    def __init__(self, network: Network, errors: Errors) -> None:
        self._network = network
        self._errors = errors

    def _connect(self, timeout_s: float | None) -> Pipe:
        with _translated(self._errors):
            return self._network.connect(timeout_s)


class Backend(_Exchange):
    """Connects a synchronous pool to the network."""

    def connect_tcp(
        self,
        host: str,  # noqa: ARG002
        port: int,  # noqa: ARG002
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[object] | None = None,  # noqa: ARG002
    ) -> Stream:
        """Return a new connection, whatever the host."""
        return Stream(self._network, self._connect(timeout), self._errors)

    def sleep(self, seconds: float) -> None:
        """Let time pass between two attempts to connect."""
        self._network.sleep(seconds)


class AsyncBackend(_Exchange):
    """Connects an asynchronous pool to the network."""

    async def connect_tcp(
        self,
        host: str,  # noqa: ARG002
        port: int,  # noqa: ARG002
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[object] | None = None,  # noqa: ARG002
    ) -> AsyncStream:
        """Return a new connection, whatever the host."""
        return AsyncStream(self._network, self._connect(timeout), self._errors)

    async def sleep(self, seconds: float) -> None:
        """Let time pass between two attempts to connect."""
        self._network.sleep(seconds)
