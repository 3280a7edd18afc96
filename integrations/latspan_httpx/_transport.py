"""One request and its response, with the phases that httpcore's ``trace`` extension tells."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final

from latspan.instrument import Attempt, Exchange, body_watch, guarded, is_switched_on, report_bug
from latspan_httpx._events import astamping, stamping

__all__ = ["send", "send_async"]

_Stamping = Callable[[Attempt, Callable[[], int], Any], Callable[..., Any]]
"""Makes a ``trace`` callback, given a try, a clock and the caller's own callback."""

_TRACEPARENT: Final = b"traceparent"

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
        sending = _begin(request, official, stamping) if is_switched_on() else None
        if sending is None:
            return wrapped(*args, **kwargs)
        try:
            response = wrapped(*args, **kwargs)
        except BaseException as error:
            sending.failed(error)
            raise
        sending.answered(response)
        return response

    return send_request


def send_async(official: str, core: str) -> Callable[..., Awaitable[Any]]:
    """
    Return what stands in for ``AsyncClient._send_single_request``.

    Args:
        official: The name of OpenTelemetry's own instrumentor of this library.
        core: The module beneath, ``httpcore`` or ``httpcore2``.
    """
    start_up = functools.partial(_start_up, core)

    async def send_request(
        wrapped: Callable[..., Awaitable[Any]],
        instance: Any,  # noqa: ARG001 - wrapt's signature
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        request = args[0] if args else kwargs["request"]
        sending = _begin(request, official, astamping, start_up) if is_switched_on() else None
        if sending is None:
            return await wrapped(*args, **kwargs)
        try:
            response = await wrapped(*args, **kwargs)
        except BaseException as error:
            sending.failed(error)
            raise
        sending.answered(response)
        return response

    return send_request


def _begin(
    request: Any, official: str, stamping: _Stamping, start_up: Callable[[], None] | None = None
) -> _Sending | None:
    try:
        url = request.url
        exchange = Exchange.begin(
            request.method,
            scheme=url.scheme,
            host=url.host,
            port=url.port,
            path=url.raw_path.partition(b"?")[0].decode("ascii"),
            official=("opentelemetry.instrumentation.httpx", official),
            start_up=start_up,
        )
        return None if exchange is None else _Sending(exchange, request, stamping)
    except Exception as error:  # noqa: BLE001 - latspan's own
        report_bug(error, "the start of a request")
        return None


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


def _with_context(headers: Any, exchange: Exchange) -> Any:
    """Return a copy of a request's headers that carries our trace context too."""
    carrying = headers.__class__(headers, headers.encoding)
    # The headers' own methods go through all of them to look, and again to add.
    listed: list[tuple[bytes, bytes, bytes]] | None = getattr(carrying, "_list", None)
    if listed is None:
        if "traceparent" not in carrying:
            carrying.update(exchange.trace_context())
        return carrying
    for _, name, _ in listed:
        if name == _TRACEPARENT:
            return carrying
    for said, value in exchange.trace_context():
        if said == "traceparent":
            listed.append((_TRACEPARENT, _TRACEPARENT, value.encode("ascii")))
        else:
            carrying[said] = value
    return carrying


class _Sending:
    """
    Lends a request our trace context and the ``trace`` callback while it is sent.

    The caller has its request back as it was: sent again, or on to where a redirect points,
    it must not carry this exchange's identity. httpcore holds on to its own references.

    Args:
        exchange: Whose context it is.
        request: The client library's own.
        stamping: Makes the callback.
    """

    __slots__ = ("_active", "_exchange", "_extensions", "_lent", "_request")

    def __init__(self, exchange: Exchange, request: Any, stamping: _Stamping) -> None:
        self._exchange = exchange
        self._request = request
        # The one request may be on its way twice at once: then the other's loan stands here.
        lent = request.extensions.get(_LENT) or (request.headers, request.extensions)
        self._lent = headers, extensions = lent
        headers = _with_context(headers, exchange)
        trace = stamping(exchange.attempt, exchange.call.now, extensions.get("trace"))
        self._extensions = {**extensions, "trace": trace, _LENT: lent}
        request.headers, request.extensions = headers, self._extensions
        self._active = exchange.active()

    def failed(self, error: BaseException) -> None:
        """Hear that the transport raised ``error``."""
        self._give_back()
        with guarded("the failure of a request"):
            self._exchange.failed(error)

    def answered(self, response: Any) -> None:
        """Hear that the transport returned ``response``, whose body is still to come."""
        self._give_back()
        exchange = self._exchange
        # There is no public way to ask for a body that may not be in memory.
        body: object = getattr(self._request, "_content", None)
        try:
            exchange.answered(
                response.status_code,
                response.headers,
                response,
                request_body=body if isinstance(body, bytes) else None,
            )
            if exchange.call.reads is not None and exchange.attempt.error_type is None:
                # The reads of a stream say all there is to know of its body, and httpcore looks
                # for the callback anew at each step: what is left is for the caller's own.
                self._extensions["trace"] = self._lent[1].get("trace")
            watching = body_watch(response)
            if watching is not None and response.is_closed:
                # Made in memory, by a mock or a cache: it was whole before anybody could read it.
                watching.ended(watching.reading())
        except Exception as error:  # noqa: BLE001 - latspan's own
            report_bug(error, "the response headers")

    def _give_back(self) -> None:
        if self._active is not None:
            self._active.leave()
        self._request.headers, self._request.extensions = self._lent
