"""
Hooks on the call with which an httpx client passes one request to its transport.

The hooked methods, ``Client._send_single_request`` and its asynchronous counterpart, are private.
They are the only methods that the client calls once per request on the transport: the public
``send`` includes authentication and redirects, which are separate requests.

The client passes a request to its transport, and a :class:`TransportSend` begins. The transport
passes it to an httpcore pool, once or several times (see ``_pools.py``), and returns or raises,
which ends the :class:`TransportSend`. A context variable connects the two levels. A copied context
may outlive the request, so a request that has ended is ignored.

latspan changes one object here: it adds the trace context to the headers of the httpx request, and
removes it when the transport returns or raises.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final

from latspan._live.instrument import (
    Exchange,
    body_tracker,
    handle_internal_errors,
    is_excluded,
    log_internal_error,
    sent_request,
)

_TRACEPARENT: Final = b"traceparent"

_lent: Final[set[bytes]] = set()
"""
Values of ``traceparent`` that latspan has added to requests in flight.

The same request object may be in flight twice at once. The value in its headers may then belong to
the other send; this set distinguishes it from a value that the caller has set.
"""

current: ContextVar[TransportSend | None] = ContextVar("latspan_httpx_sending", default=None)


class _Aside:
    """
    A request that is not recorded.

    While it is in progress, sends are not recorded on a request around it either.
    """

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token = current.set(None)

    def failed(self, error: BaseException) -> None:
        """Record that the transport raised ``error``."""
        del error
        self._leave()

    def response_received(self, response: Any) -> None:
        """Record that the transport returned ``response``."""
        del response
        self._leave()

    def _leave(self) -> None:
        # A coroutine that is not awaited to its end may be closed from another context.
        with suppress(ValueError):
            current.reset(self._token)


class TransportSend:
    """
    One request in a transport, from construction until it fails or is answered.

    The caller's request object is sent, and changes made by a transport are kept. latspan's trace
    context is in its headers only while the transport has it: a request that is sent again, or to
    the target of a redirect, must not contain the identity of this exchange.

    Args:
        exchange: The exchange that was begun for the request.
        request: The request object of the client library.
    """

    __slots__ = ("_active", "_lent_headers", "_request", "_token", "exchange", "over", "sends")

    def __init__(self, exchange: Exchange, request: Any) -> None:
        self.exchange = exchange
        """The exchange."""
        self._request = request
        self._lent_headers = _LentHeaders(exchange, request.headers)
        self.sends: list[tuple[Any, Any]] = []
        """httpcore request of each send, with the extensions that it had before."""
        self.over = False
        """Whether the transport has returned or raised."""
        self._token = current.set(self)
        self._active = exchange.active() if exchange.alone else None

    def failed(self, error: BaseException) -> None:
        """Record that the transport raised ``error``."""
        with handle_internal_errors("the failure of a request"):
            self._leave()
            self.exchange.failed(error)

    def response_received(self, response: Any) -> None:
        """Record that the transport returned ``response``; its body may still be unread."""
        try:
            self._leave()
            exchange = self.exchange
            exchange.response_received(
                response.status_code, response.headers, response, request_body=exchange.sent.body
            )
            if exchange.operation.reads is not None and exchange.attempt.error_type is None:
                # The recorded reads of a stream contain everything about its body, so httpcore's
                # events are no longer needed.
                # httpcore looks up the callback again at each step.
                for sent, extensions in self.sends:
                    sent.extensions = extensions
            tracker = body_tracker(response) if exchange.alone else None
            if tracker is not None and response.is_closed:
                # A mock or a cache made the response in memory, so its body was complete before
                # the caller could read it.
                tracker.ended(tracker.reading())
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, "the response headers")

    def _leave(self) -> None:
        self.over = True
        if self._active is not None:
            self._active.leave()
        # Written out, because `suppress` costs three function calls per request. A coroutine that
        # is not awaited to its end may be closed from another context.
        try:  # noqa: SIM105
            current.reset(self._token)
        except ValueError:
            pass
        self._lent_headers.give_back(self._request.headers)


class _LentHeaders:
    """
    Trace context that was added to the headers of one request.

    Args:
        exchange: The exchange whose trace context is added.
        headers: The headers of the request, an httpx ``Headers`` object.
    """

    __slots__ = ("_entry", "_state", "_state_before")

    def __init__(self, exchange: Exchange, headers: Any) -> None:
        self._entry: tuple[bytes, bytes, bytes] | None = None
        self._state: str | None = None
        self._state_before: str | None = None
        # Each method of httpx's `Headers` iterates over all headers, to find, to add and to remove
        # a value. Together these calls took longer than the rest of latspan's work for a request.
        listed: list[tuple[bytes, bytes, bytes]] | None = getattr(headers, "_list", None)
        if listed is None:
            return
        present: int | None = None
        for at, each in enumerate(listed):
            if each[1] == _TRACEPARENT:
                present = at
                break
        if present is not None and listed[present][2] not in _lent:
            return
        for name, value in exchange.trace_context():
            if name != "traceparent":
                self._state, self._state_before = value, headers.get(name)
                headers[name] = value
                continue
            entry = (_TRACEPARENT, _TRACEPARENT, value.encode("ascii"))
            if present is None:
                listed.append(entry)
            elif listed[present][2] == entry[2]:
                # A transport has copied the headers of the same call, so the value is there
                # already.
                return
            else:
                listed[present] = entry
            _lent.add(entry[2])
            self._entry = entry

    def give_back(self, headers: Any) -> None:
        """
        Remove the trace context, and keep every other change that the transport made.

        Args:
            headers: The present headers of the request.
        """
        if self._entry is None:
            return
        _lent.discard(self._entry[2])
        listed: list[tuple[bytes, bytes, bytes]] | None = getattr(headers, "_list", None)
        if listed is not None and self._entry in listed:
            listed.remove(self._entry)
        if self._state is not None and headers.get("tracestate") == self._state:
            if self._state_before is None:
                del headers["tracestate"]
            else:
                headers["tracestate"] = self._state_before


def send(official: str) -> Callable[..., Any]:
    """
    Return the replacement for ``Client._send_single_request``.

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
        sending = _begin(request, official)
        if sending is None:
            return wrapped(*args, **kwargs)
        try:
            response = wrapped(*args, **kwargs)
        except BaseException as error:
            sending.failed(error)
            raise
        sending.response_received(response)
        return response

    return send_request


def send_async(official: str, core: str) -> Callable[..., Awaitable[Any]]:
    """
    Return the replacement for ``AsyncClient._send_single_request``.

    Args:
        official: The name of OpenTelemetry's own instrumentor of this library.
        core: The name of the module that the library uses, ``httpcore`` or ``httpcore2``.
    """
    start_up = functools.partial(_start_up, core)

    async def send_request(
        wrapped: Callable[..., Awaitable[Any]],
        instance: Any,  # noqa: ARG001 - wrapt's signature
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        request = args[0] if args else kwargs["request"]
        sending = _begin(request, official, start_up)
        if sending is None:
            return await wrapped(*args, **kwargs)
        try:
            response = await wrapped(*args, **kwargs)
        except BaseException as error:
            sending.failed(error)
            raise
        sending.response_received(response)
        return response

    return send_request


def _begin(
    request: Any, official: str, start_up: Callable[[], None] | None = None
) -> TransportSend | _Aside | None:
    try:
        excluded = is_excluded(lambda: str(request.url), "HTTPX")
        if excluded is None:
            return None
        if not excluded:
            exchange = Exchange.begin(
                sent_request(request),
                official=("opentelemetry.instrumentation.httpx", official),
                start_up=start_up,
                asynchronous=start_up is not None,
            )
            if exchange is not None:
                return TransportSend(exchange, request)
        return _Aside()
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, "the start of a request")
        return None


def _start_up(core: str) -> None:
    """
    Import the modules that httpcore otherwise imports inside the first asynchronous request.

    That import takes about 20 ms. It would fall between the entry into the transport and the first
    event, and would be reported as a wait for the pool.
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
