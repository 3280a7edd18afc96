"""
Hooks on the pools of httpcore: each request passed to a pool is one send, from any transport.

A transport that retries, or sends twice concurrently, passes the request to a pool more than once.
Each send has its own httpcore request, so the ``trace`` callbacks of the sends are separate.
latspan sets the ``trace`` extension of that request, which httpx creates anew for each send. The
httpx request, which transports see and may change, is not modified here.

The events of a send occur in this order. Each step is ``started`` and then ``complete`` or
``failed``. A send on an open connection begins with step 4.

1. ``connect_tcp`` or ``connect_unix_socket``. If a connection is retried (``retries=``), the step
   ends with ``failed``, ``retry`` and the back-off follow, and the step is repeated as another
   attempt.
2. Through a proxy: ``start_tls`` if the proxy uses TLS, then the request for a tunnel, whose
   events have the names of step 4; or ``setup_socks5_connection``. A plain ``http`` request does
   not need a tunnel and uses the connection to the proxy. All of this is the segment ``connect``.
3. ``start_tls`` with the server.
4. ``send_request_headers``, ``send_request_body``, ``receive_response_headers``; then, as the body
   is read, ``receive_response_body`` and ``response_closed``.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from latspan._live.instrument import (
    Attempt,
    Exchange,
    Patches,
    handle_internal_errors,
    log_internal_error,
)
from latspan._model.segments import SegmentName
from latspan_instrumentation.httpx._transport import current


class _Meaning(NamedTuple):
    """
    What an event of httpcore means for the attempt.

    Args:
        field: Field of the attempt that stores the time of the event.
        begins: Segment that the event begins.
        connecting_failed: Whether a step of the connection has failed.
        retries: Whether the back-off before another connection begins.
    """

    field: str | None = None
    begins: SegmentName | None = None
    connecting_failed: bool = False
    retries: bool = False


_MEANINGS: Final = {
    "connect_tcp.started": _Meaning(begins=SegmentName.CONNECT),
    "connect_tcp.complete": _Meaning("connected_ns"),
    "connect_tcp.failed": _Meaning(connecting_failed=True),
    "connect_unix_socket.started": _Meaning(begins=SegmentName.CONNECT),
    "connect_unix_socket.complete": _Meaning("connected_ns"),
    "connect_unix_socket.failed": _Meaning(connecting_failed=True),
    "retry.started": _Meaning(retries=True),
    "setup_socks5_connection.complete": _Meaning("connected_ns"),
    "start_tls.started": _Meaning(begins=SegmentName.TLS),
    "start_tls.complete": _Meaning("tls_done_ns"),
    "start_tls.failed": _Meaning(connecting_failed=True),
    "send_request_headers.started": _Meaning(begins=SegmentName.SEND),
    "send_request_body.complete": _Meaning("sent_ns", SegmentName.SERVER_WAIT),
    "receive_response_headers.complete": _Meaning("headers_ns"),
    "receive_response_body.complete": _Meaning("body_end_ns"),
}
"""What each event means, by its name without the part of httpcore; other events mean nothing."""

_NOTHING: Final = _Meaning()
_MAX_NAMES: Final = 128


class _Meanings(dict[str, _Meaning]):
    """What each event means, by its full name; a call repeats the same few names."""

    def __missing__(self, name: str) -> _Meaning:
        meaning = _MEANINGS.get(name.partition(".")[2], _NOTHING)
        if len(self) < _MAX_NAMES:
            self[name] = meaning
        return meaning


_by_name: Final = _Meanings()


class Listener:
    """
    Recorder of one send on its attempt: of httpcore's events, and of the end of the send.

    Args:
        attempt: The attempt.
        now: Returns the time in monotonic nanoseconds.
        exchange: The exchange of the attempt; ``None`` if the outcome is not recorded.
    """

    __slots__ = ("_exchange", "_failure", "_now", "_tunnelling", "attempt")

    def __init__(
        self, attempt: Attempt, now: Callable[[], int], exchange: Exchange | None = None
    ) -> None:
        self.attempt = attempt
        self._now = now
        self._exchange = exchange
        self._tunnelling = False
        self._failure: BaseException | None = None

    async def on_event_async(self, name: str, info: Any) -> None:
        """Record an event of an asynchronous transport; see :meth:`on_event`."""
        self.on_event(name, info)

    def on_event(self, name: str, info: Any) -> None:
        """
        Record an event with the present time.

        Args:
            name: ``<part>.<step>.<started|complete|failed>``.
            info: The values that httpcore passes with the event, by name.
        """
        now_ns, attempt = self._now(), self.attempt
        if attempt.pool_acquired_ns is None:
            # httpcore has no event for the end of the wait for the pool: the first event of any
            # kind means that the pool assigned a connection.
            attempt.pool_acquired_ns = now_ns
        meaning = _by_name[name]
        if meaning is _NOTHING:
            return
        field, begins, connecting_failed, retries = meaning
        if connecting_failed:
            self._failure = info.get("exception")
            return
        if retries:
            self._record_failed_connection()
            return
        if self._tunnelling:
            if field == "headers_ns":
                self._tunnelling, attempt.connected_ns = False, now_ns
            return
        if field is not None:
            setattr(attempt, field, now_ns)
        if begins is None:
            return
        if begins is SegmentName.SEND:
            if getattr(info.get("request"), "method", None) == b"CONNECT":
                # The steps so far connected to the proxy, which is part of `connect`.
                self._tunnelling, attempt.connected_ns, attempt.tls_done_ns = True, None, None
                begins = SegmentName.CONNECT
            else:
                attempt.reused = attempt.connected_ns is None
        elif begins is SegmentName.CONNECT and attempt.end_ns is not None and self._exchange:
            # The back-off is over, and a new attempt begins.
            attempt = self.attempt = self._exchange.send_begins()
            attempt.pool_acquired_ns = attempt.start_ns
        attempt.phase = begins

    def _record_failed_connection(self) -> None:
        """Record that a failed connection will be retried after a back-off."""
        if self._exchange is not None and self._failure is not None:
            self._exchange.send_failed(self._failure, self.attempt)
        self._failure = None

    def response_received(self, response: Any) -> None:
        """Record that the pool returned ``response``, an httpcore response."""
        # Written out, because `handle_internal_errors` costs three function calls per request.
        try:
            if self._exchange is not None:
                self._exchange.attempt_answered(response.status, self.attempt)
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, "the response to a send")

    def failed(self, error: BaseException) -> None:
        """Record that the pool raised ``error``."""
        with handle_internal_errors("the failure of a send"):
            if self._exchange is not None:
                self._exchange.send_failed(error, self.attempt)


def patch_pools(patches: Patches, core: Any) -> None:
    """Hook the pools of httpcore or httpcore2; its proxy pools inherit the hooks."""
    patches.replace(core.ConnectionPool, "handle_request", _handle_request_of)
    patches.replace(core.AsyncConnectionPool, "handle_async_request", _handle_async_request_of)


def _handle_request_of(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def handle_request(self: Any, request: Any) -> Any:
        send = _begin_send(request, asynchronous=False)
        if send is None:
            return original(self, request)
        try:
            response = original(self, request)
        except BaseException as error:
            send.failed(error)
            raise
        send.response_received(response)
        return response

    return handle_request


def _handle_async_request_of(
    original: Callable[..., Awaitable[Any]],
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(original)
    async def handle_async_request(self: Any, request: Any) -> Any:
        send = _begin_send(request, asynchronous=True)
        if send is None:
            return await original(self, request)
        try:
            response = await original(self, request)
        except BaseException as error:
            send.failed(error)
            raise
        send.response_received(response)
        return response

    return handle_async_request


def _begin_send(request: Any, *, asynchronous: bool) -> Listener | None:
    """
    Begin a send of the request in progress, at the present time.

    httpcore reports the events of the send to latspan first, and then latspan calls the
    application's own ``trace`` callback.

    Args:
        request: The httpcore request, made for this send.
        asynchronous: Whether an asynchronous pool sends it.

    Returns:
        Recorder of the send; ``None`` if no request is in progress in this context.
    """
    sending = current.get()
    if sending is None or sending.over:
        return None
    try:
        exchange = sending.exchange
        listener = Listener(exchange.send_begins(), exchange.operation.now, exchange)
        extensions = request.extensions
        also = extensions.get("trace")
        on_event: Callable[[str, Any], object] = (
            listener.on_event_async if asynchronous else listener.on_event
        )
        if also is not None:
            on_event = (_chained_async if asynchronous else _chained)(listener.on_event, also)
        request.extensions = {**extensions, "trace": on_event}
        sending.sends.append((request, extensions))
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, "the start of a send")
        return None
    return listener


def _chained(
    first: Callable[[str, Any], object], then: Callable[[str, Any], object]
) -> Callable[[str, Any], object]:
    def on_event(name: str, info: Any) -> object:
        first(name, info)
        # httpcore checks the return value of the application's callback, so it is passed on.
        return then(name, info)

    return on_event


def _chained_async(
    first: Callable[[str, Any], object], then: Callable[[str, Any], Awaitable[object]]
) -> Callable[[str, Any], Awaitable[None]]:
    async def on_event(name: str, info: Any) -> None:
        first(name, info)
        await then(name, info)

    return on_event
