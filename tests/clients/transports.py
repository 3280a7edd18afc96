"""Transports of an application's own for httpx, written once for both kinds of client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tests.clients.conftest import Driver

Send = Callable[[Any], Awaitable[Any]]
Handle = Callable[[Any, Send], Coroutine[Any, Any, Any]]


def settled(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine comes to that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


async def step(driver: Driver, value: Any) -> Any:
    """Return ``value``, or what it comes to where the client is asynchronous."""
    return await value if driver.asynchronous else value


def built_on(driver: Driver, inner: Any, handle: Handle) -> Any:
    """
    Return a transport that does ``handle``.

    Args:
        driver: Whose kind of transport it is.
        inner: The transport that it sends through.
        handle: Given a request and what sends one, returns the response.
    """
    http = driver.http
    if driver.asynchronous:

        class AsyncTransport(http.AsyncBaseTransport):
            async def handle_async_request(self, request: Any) -> Any:
                return await handle(request, inner.handle_async_request)

            async def aclose(self) -> None:
                await inner.aclose()

        return AsyncTransport()

    class Transport(http.BaseTransport):
        def handle_request(self, request: Any) -> Any:
            async def send(request: Any) -> Any:
                return inner.handle_request(request)

            return settled(handle(request, send))

        def close(self) -> None:
            inner.close()

    return Transport()
