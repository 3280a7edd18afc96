"""One request and its response, with the phases that httpcore's ``trace`` extension tells."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final

from latspan.instrument import Exchange, body_watch
from latspan_httpx._events import stamp

__all__ = ["send", "send_async"]

_Tracing = Callable[[Exchange, Callable[..., Any] | None], Callable[..., Any]]
"""Makes a ``trace`` callback, given the caller's own."""

_LENT: Final = "latspan.lent"
"""The extension of a request that holds what the caller gave it."""


def send(official: str) -> Callable[..., Any]:
    """
    Return what stands in for ``Client._send_single_request``.

    Args:
        official: The name of OpenTelemetry's own instrumentor of this library.
    """

    def send_request(
        wrapped: Callable[..., Any],
        instance: Any,  # noqa: ARG001 - wrapt's signature
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        request = args[0] if args else kwargs["request"]
        exchange = _begin(request, official)
        if exchange is None:
            return wrapped(*args, **kwargs)
        try:
            with _Sending(exchange, request, _trace):
                response = wrapped(*args, **kwargs)
        except BaseException as error:
            exchange.failed(error)
            raise
        _answered(exchange, request, response)
        return response

    return send_request


def send_async(official: str, core: str) -> Callable[..., Awaitable[Any]]:
    """
    Return what stands in for ``AsyncClient._send_single_request``.

    Args:
        official: The name of OpenTelemetry's own instrumentor of this library.
        core: The module beneath, ``httpcore`` or ``httpcore2``.
    """

    async def send_request(
        wrapped: Callable[..., Awaitable[Any]],
        instance: Any,  # noqa: ARG001 - wrapt's signature
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        request = args[0] if args else kwargs["request"]
        exchange = _begin(request, official, lambda: _start_up(core))
        if exchange is None:
            return await wrapped(*args, **kwargs)
        try:
            with _Sending(exchange, request, _async_trace):
                response = await wrapped(*args, **kwargs)
        except BaseException as error:
            exchange.failed(error)
            raise
        _answered(exchange, request, response)
        return response

    return send_request


def _begin(
    request: Any, official: str, start_up: Callable[[], None] | None = None
) -> Exchange | None:
    url = request.url
    return Exchange.begin(
        request.method,
        scheme=url.scheme,
        host=url.host,
        port=url.port,
        path=url.raw_path.partition(b"?")[0].decode("ascii"),
        official=("opentelemetry.instrumentation.httpx", official),
        start_up=start_up,
    )


def _start_up(core: str) -> None:
    """
    Import now what httpcore imports inside the first asynchronous request.

    Otherwise its some 20 ms would lie between entry into the transport and the first event, and
    read as a wait for the pool.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    _import_backend(core)


@functools.cache
def _import_backend(core: str) -> None:
    for module in (f"{core}._backends.anyio", "anyio._backends._asyncio"):
        try:
            import_module(module)
        except ImportError:
            continue


class _Sending:
    """
    Inside ``with`` lend a request our trace context and the ``trace`` callback.

    The caller has its request back as it was: sent again, or on to where a redirect points,
    it must not carry this exchange's identity. httpcore holds on to its own references.

    Args:
        exchange: Whose context it is.
        request: The client library's own.
        tracing: Makes the callback.
    """

    __slots__ = ("_active", "_lent", "_request")

    def __init__(self, exchange: Exchange, request: Any, tracing: _Tracing) -> None:
        self._request = request
        # The one request may be on its way twice at once: then the other's loan stands here.
        lent = request.extensions.get(_LENT) or (request.headers, request.extensions)
        self._lent = headers, extensions = lent
        request.headers = headers.copy()
        exchange.inject(request.headers)
        trace = tracing(exchange, extensions.get("trace"))
        request.extensions = {**extensions, "trace": trace, _LENT: lent}
        self._active = exchange.call.active()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        self._active.leave()
        self._request.headers, self._request.extensions = self._lent


def _answered(exchange: Exchange, request: Any, response: Any) -> None:
    # There is no public way to ask for a body that may not be in memory.
    body: object = getattr(request, "_content", None)
    exchange.answered(
        response.status_code,
        response.headers,
        response,
        request_body=body if isinstance(body, bytes) else None,
    )
    watching = body_watch(response)
    if watching is not None and response.is_closed:
        # Made in memory, by a mock or a cache: it was whole before anybody could read it.
        watching.ended(watching.reading())


def _trace(exchange: Exchange, chained: Callable[..., Any] | None) -> Callable[[str, Any], None]:
    """Return the callback for a synchronous transport; ``chained`` is the caller's own."""

    def on_event(name: str, info: Any) -> None:
        stamp(exchange.attempt, name, exchange.call.now())
        if chained is not None:
            chained(name, info)

    return on_event


def _async_trace(
    exchange: Exchange, chained: Callable[..., Awaitable[Any]] | None
) -> Callable[[str, Any], Awaitable[None]]:
    """Return the callback for an asynchronous transport."""

    async def on_event(name: str, info: Any) -> None:
        stamp(exchange.attempt, name, exchange.call.now())
        if chained is not None:
            await chained(name, info)

    return on_event
