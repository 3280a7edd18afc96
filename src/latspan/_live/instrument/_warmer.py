"""Types that an integration returns for a client whose connections are to be warmed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from latspan._model.timeline import Attempt


class Warmer(Protocol):
    """
    Interface for opening the connections of one client.

    The results of the methods are awaitable if the client is asynchronous.

    The methods may raise any exception of the client library.
    """

    @property
    def server(self) -> str:
        """Host and port."""
        ...

    def open(self, attempt: Attempt, now: Callable[[], int]) -> Any:
        """
        Send one request without side effects, and return its response, which holds a connection.

        Args:
            attempt: Receives the instants ``pool_acquired_ns``, ``connected_ns`` and
                ``tls_done_ns``, as far as the library reports them.
            now: Clock to read, monotonic nanoseconds.
        """
        ...

    def release(self, response: Any) -> Any:
        """Read and close a response, and return whether its connection stays open."""
        ...


@runtime_checkable
class WarmsTransport(Protocol):
    """Interface of an integration of an HTTP library whose connections latspan can open."""

    def warmer(self, client: Any, url: str | None, timeout_s: float) -> Warmer | None:
        """
        Return an object that opens connections of ``client`` before its first request.

        Args:
            client: Any client.
            url: URL to connect to; ``None`` for the client's own base URL.
            timeout_s: Maximum duration of each step of each request, in seconds.

        Returns:
            ``None`` for the client of another library, and for a client that latspan cannot warm.
        """
        ...


@dataclass(frozen=True, slots=True)
class UnderlyingClient:
    """
    HTTP client through which the client of an SDK sends.

    Args:
        client: The underlying client.
        url: URL to connect to if the caller of :func:`warm` does not pass one.
        prepare: Does the work that the first call would otherwise do before it sends its request.
    """

    client: Any
    url: str
    prepare: Callable[[], None]
