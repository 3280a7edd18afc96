"""Connections of httpx and httpx2 clients, opened in advance with a ``HEAD`` request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from latspan._live.instrument import Attempt, Warmer, port_of
from latspan_instrumentation.httpx._pools import Listener


def warmer_of(client: Any, url: str | None, timeout_s: float) -> Warmer:
    """
    Return an object that opens connections of a client.

    Args:
        client: A synchronous or asynchronous client.
        url: The URL to connect to; ``None`` for the client's ``base_url``.
        timeout_s: Maximum time in seconds for connecting, writing, reading, and waiting for the
            pool, each.

    Raises:
        ValueError: The client is closed, or neither ``url`` nor ``base_url`` has a host.
    """
    if client.is_closed:
        raise ValueError("the client is closed")
    build = partial(client.build_request, "HEAD", url or client.base_url, timeout=timeout_s)
    if not build().url.host:
        raise ValueError("the client has no base_url: pass url=")
    asynchronous = hasattr(client, "__aenter__")
    return (_AsyncClientWarmer if asynchronous else _ClientWarmer)(client, build)


class _Requests:
    """
    Common part of the warmers for synchronous and asynchronous clients.

    Both pass their requests directly to the transport. If the client sent them, they would run the
    application's event hooks, follow redirects and store cookies.

    Args:
        client: The client.
        build: Returns the request to send; its argument is the request's extensions.
    """

    def __init__(self, client: Any, build: Callable[..., Any]) -> None:
        self.build = build
        self._url: Any = build().url
        self.transport: Any = client._transport_for_url(self._url)

    @property
    def server(self) -> str:
        """Host and port of the server, as ``host:port``."""
        url = self._url
        return f"{url.host}:{port_of(url.scheme, url.port)}"


class _ClientWarmer(_Requests):
    """Warmer that opens connections of a synchronous client."""

    def open(self, attempt: Attempt, now: Callable[[], int]) -> Any:
        """Send a request, and return the response unread."""
        request = self.build(extensions={"trace": Listener(attempt, now).on_event})
        return self.transport.handle_request(request)

    def release(self, response: Any) -> bool:
        """Read and close a response; return whether its connection stays open."""
        try:
            response.read()
        finally:
            response.close()
        return _stays_open(response)


class _AsyncClientWarmer(_Requests):
    """Warmer that opens connections of an asynchronous client."""

    async def open(self, attempt: Attempt, now: Callable[[], int]) -> Any:
        """Send a request, and return the response unread."""
        request = self.build(extensions={"trace": Listener(attempt, now).on_event_async})
        return await self.transport.handle_async_request(request)

    async def release(self, response: Any) -> bool:
        """Read and close a response; return whether its connection stays open."""
        try:
            await response.aread()
        finally:
            await response.aclose()
        return _stays_open(response)


def _stays_open(response: Any) -> bool:
    closes = "close" in response.headers.get("connection", "").lower()
    return not closes and response.extensions.get("http_version") != b"HTTP/1.0"
