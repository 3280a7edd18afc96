"""
Network backends for httpcore and httpcore2 over a scripted network, without sockets.

Both libraries call the same methods of a backend and do not check its type, so one set of classes
serves both; only the errors differ.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

from latspan.testing._network import Failure, Network, NetworkFailureError, Pipe

Errors = Mapping[Failure, type[Exception]]
"""The library's exception for each failure."""


def bare_ssl_context() -> ssl.SSLContext:
    """
    Return a context that does not verify certificates.

    The handshake is simulated, and loading the real certificate authorities would take 15 ms.
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
    Common base of the two kinds of stream.

    Args:
        network: Network of the transport.
        pipe: The connection.
        errors: The library's exception for each failure.
    """

    def __init__(self, network: Network, pipe: Pipe, errors: Errors) -> None:
        self._network = network
        self._pipe = pipe
        self._errors = errors

    def get_extra_info(self, info: str) -> object:
        """Return whether data can be read, for ``is_readable``; otherwise ``None``."""
        return self._pipe.readable if info == "is_readable" else None


class ScriptedStream(_Line):
    """A connection for a synchronous pool."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the data that has arrived; wait if there is none."""
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
    ) -> ScriptedStream:
        """Advance the clock by a TLS handshake; the bytes are not encrypted."""
        with _translated(self._errors):
            self._network.shake_hands(timeout)
        return self


class AsyncStream(_Line):
    """A connection for an asynchronous pool."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Return the data that has arrived; wait if there is none."""
        if self._pipe.waits:
            # A wait lets other tasks run, and a cancellation takes effect there.
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
        """Advance the clock by a TLS handshake; the bytes are not encrypted."""
        with _translated(self._errors):
            self._network.shake_hands(timeout)
        return self


class _Exchange:
    """
    Common base of the two kinds of backend.

    Args:
        network: Network to connect to.
        errors: The library's exception for each failure.
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
    ) -> ScriptedStream:
        """Return a new connection, whatever the host."""
        return ScriptedStream(self._network, self._connect(timeout), self._errors)

    def sleep(self, seconds: float) -> None:
        """Advance the clock between two attempts to connect."""
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
        """Advance the clock between two attempts to connect."""
        self._network.sleep(seconds)
