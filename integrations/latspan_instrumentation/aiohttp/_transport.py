"""
Hooks on a request in aiohttp: connect, send, receive the headers, and repeat for redirects.

aiohttp reports only a part of these steps through its public ``TraceConfig``, and adding one would
change the application's session. So these methods are hooked, private ones among them, in the order
in which a request passes through them: ``ClientSession._request`` (one call of the session,
redirects included), ``BaseConnector.connect`` (one exchange begins),
``TCPConnector._resolve_host``, ``TCPConnector._wrap_create_connection``, ``ClientRequest.send``,
``ClientRequest.write_bytes`` (the body, in a task of its own) and ``ClientResponse.start`` (the
response headers).

The attempt is stored on the request object and, once it exists, on the response object. A
cancellation ends an exchange only when the session's method raises, because aiohttp turns the
cancellation of its own timeouts into another exception there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

from aiohttp import BaseConnector, ClientRequest, ClientResponse, ClientSession, TCPConnector

from latspan._live.instrument import (
    Exchange,
    Patches,
    SentRequest,
    handle_internal_errors,
    impersonate,
    is_excluded,
    port_of,
)
from latspan._model.segments import SegmentName
from latspan_instrumentation.aiohttp import _attempt
from latspan_instrumentation.aiohttp._attempt import Try
from latspan_instrumentation.aiohttp._bodies import track_content

Wrapped = Callable[..., Awaitable[Any]]
Positional = tuple[Any, ...]
Named = dict[str, Any]


def patch_transport(patches: Patches) -> None:
    """Hook the steps from a session's request through its connector to the response headers."""
    patches.wrap(ClientSession, "_request", _request)
    patches.wrap(BaseConnector, "connect", _connect)
    patches.wrap(TCPConnector, "_resolve_host", _resolve_host)
    patches.wrap(TCPConnector, "_wrap_create_connection", _wrap_create_connection)
    patches.wrap(ClientRequest, "send", _send)
    patches.wrap(ClientRequest, "write_bytes", _write_bytes)
    patches.wrap(ClientResponse, "start", _start)


class _Journey:
    """
    The exchanges of one call of a session's method.

    Each redirect and each second attempt is an exchange of its own.
    """

    __slots__ = ("_interrupted",)

    def __init__(self) -> None:
        self._interrupted: tuple[Exchange, BaseException] | None = None

    def failed(self, exchange: Exchange, error: BaseException) -> None:
        """Record that ``exchange`` did not get a response."""
        if isinstance(error, asyncio.CancelledError):
            # aiohttp's own timeouts cancel the task. Only the exception that leaves the session's
            # method shows if a cancellation was a timeout.
            self._interrupted = exchange, error
        else:
            _failed(exchange, error)

    def end_if_open(self, error: BaseException | None = None) -> None:
        """End the interrupted exchange, with ``error`` if the session's method raised one."""
        if self._interrupted is not None:
            exchange, cancellation = self._interrupted
            self._interrupted = None
            _failed(exchange, error or cancellation)


def _failed(exchange: Exchange, error: BaseException) -> None:
    with handle_internal_errors("the failure of a request"):
        exchange.failed(error)


_journey: Final[ContextVar[_Journey | None]] = ContextVar("latspan_aiohttp", default=None)


def _request(
    wrapped: Wrapped,
    instance: Any,  # noqa: ARG001 - wrapt's signature
    args: Positional,
    kwargs: Named,
) -> Awaitable[Any]:
    """Replace ``ClientSession._request``."""
    begun = wrapped(*args, **kwargs)
    return impersonate(_travelled(begun), begun)


async def _travelled(begun: Awaitable[Any]) -> Any:
    journey = _Journey()
    token = _journey.set(journey)
    try:
        return await begun
    except BaseException as error:
        journey.end_if_open(error)
        raise
    finally:
        journey.end_if_open()
        # A coroutine that is not awaited to its end may be closed from another context.
        with suppress(ValueError):
            _journey.reset(token)


async def _connect(
    wrapped: Wrapped,
    instance: Any,  # noqa: ARG001 - wrapt's signature
    args: Positional,
    kwargs: Named,
) -> Any:
    """Replace ``BaseConnector.connect``, where an exchange begins."""
    journey = _journey.get()
    if journey is None:
        return await wrapped(*args, **kwargs)
    journey.end_if_open()
    request = args[0] if args else kwargs["req"]
    tried = _begin(request)
    if tried is None:
        return await wrapped(*args, **kwargs)
    if "traces" in kwargs:
        kwargs = {**kwargs, "traces": [*kwargs["traces"], tried]}
    else:
        args = (args[0], [*args[1], tried], *args[2:])
    with _failing(tried):
        return await wrapped(*args, **kwargs)


def _begin(request: Any) -> Try | None:
    # A request that is sent again is a new attempt, so the previous one is removed.
    if not _attempt.put(request, None):
        return None
    with handle_internal_errors("the start of a request"):
        url = request.url
        if is_excluded(lambda: str(url), "AIOHTTP_CLIENT"):
            return None
        secure, body = request.is_ssl(), _body_of(request)
        exchange = Exchange.begin(
            SentRequest(
                request=None,
                method=request.method,
                scheme=url.scheme,
                host=url.host,
                port=port_of(url.scheme, url.port),
                path=url.raw_path,
                body=body,
            ),
            official=("opentelemetry.instrumentation.aiohttp_client", "AioHttpClientInstrumentor"),
            asynchronous=True,
        )
        if exchange is not None:
            tried = Try(exchange, secure=secure)
            _attempt.put(request, tried)
            return tried
    return None


def _body_of(request: Any) -> bytes | None:
    # aiohttp has no public way to get the bytes of a payload, which may not be in memory.
    body: object = getattr(request.body, "_value", request.body)
    return body if isinstance(body, bytes) else None


@contextmanager
def _failing(tried: Try) -> Generator[None]:
    """Record an exception raised inside the block as the failure of the exchange."""
    try:
        yield
    except BaseException as error:
        journey = _journey.get()
        if journey is not None:
            journey.failed(tried.exchange, error)
        raise


async def _resolve_host(
    wrapped: Wrapped,
    instance: Any,  # noqa: ARG001 - wrapt's signature
    args: Positional,
    kwargs: Named,
) -> Any:
    """
    Replace ``TCPConnector._resolve_host``.

    aiohttp has no trace signal that reports the end of every look-up.
    """
    addresses = await wrapped(*args, **kwargs)
    for trace in kwargs.get("traces") or ():
        if isinstance(trace, Try):
            trace.resolved()
    return addresses


def _wrap_create_connection(
    wrapped: Wrapped, instance: Any, args: Positional, kwargs: Named
) -> Awaitable[Any]:
    """Replace ``TCPConnector._wrap_create_connection``, which opens a socket, then TLS."""
    tried = _attempt.of(kwargs.get("req"))
    # An event loop calls the protocol factory when the socket is connected. If the loop opens the
    # socket itself, as with aiohttp before 3.10, only asyncio's own loop is known to do so.
    if tried is None or not ("addr_infos" in kwargs or _is_asyncios(instance)):
        return wrapped(*args, **kwargs)
    make_protocol, *rest = args

    def connected() -> Any:
        tried.socket_connected()
        return make_protocol()

    return wrapped(connected, *rest, **kwargs)


def _is_asyncios(connector: Any) -> bool:
    return isinstance(getattr(connector, "_loop", None), asyncio.BaseEventLoop)


async def _send(wrapped: Wrapped, instance: Any, args: Positional, kwargs: Named) -> Any:
    """Replace ``ClientRequest.send``, which writes the headers."""
    tried = _attempt.of(instance)
    if tried is None:
        return await wrapped(*args, **kwargs)
    attempt = tried.exchange.attempt
    attempt.reused = not tried.exchange.connected_here
    attempt.phase = SegmentName.SEND
    with _failing(tried), _lent(tried.exchange, instance.headers):
        response = await wrapped(*args, **kwargs)
    if not tried.writes_body:
        tried.sent()
    _attempt.put(response, tried)
    return response


@contextmanager
def _lent(exchange: Exchange, headers: Any) -> Generator[None]:
    """
    Add latspan's trace context to ``headers`` for the duration of the block.

    It is removed afterwards, so the request that the caller sees does not contain it.
    """
    ours: dict[str, str] = {}
    with handle_internal_errors("the trace context of a request"):
        if "traceparent" not in headers:
            ours.update(exchange.trace_context())
    added = {name: value for name, value in ours.items() if name not in headers}
    headers.update(added)
    try:
        yield
    finally:
        for name in added:
            headers.pop(name, None)


def _write_bytes(
    wrapped: Wrapped, instance: Any, args: Positional, kwargs: Named
) -> Awaitable[Any]:
    """Replace ``ClientRequest.write_bytes``, which aiohttp runs as a task."""
    tried = _attempt.of(instance)
    written = wrapped(*args, **kwargs)
    if tried is None:
        return written
    tried.writes_body = True
    return impersonate(_written(written, tried), written)


async def _written(written: Awaitable[Any], tried: Try) -> Any:
    nothing = await written
    tried.sent()
    return nothing


async def _start(wrapped: Wrapped, instance: Any, args: Positional, kwargs: Named) -> Any:
    """Replace ``ClientResponse.start``, which waits for the response headers."""
    tried = _attempt.of(instance)
    if tried is None:
        return await wrapped(*args, **kwargs)
    with _failing(tried):
        started = await wrapped(*args, **kwargs)
    with handle_internal_errors("the response headers"):
        exchange = tried.exchange
        exchange.attempt.headers_ns = exchange.operation.now()
        exchange.response_received(
            instance.status,
            instance.headers,
            instance,
            request_body=exchange.sent.body,
            decoded=instance._session is None or instance._session.auto_decompress,
        )
        track_content(instance, exchange)
    return started
