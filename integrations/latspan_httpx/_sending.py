"""
One request that an httpx client passes to its transport, and the sends of the transport.

The order of events: the client passes a request to its transport (:class:`TransportSend` begins);
the transport passes it to an httpcore pool, once or several times (:func:`begin_send` each time,
whose :class:`~latspan_httpx._events.Listener` receives httpcore's events); the pool returns or
raises (the send ends); the transport returns or raises (the request ends). ``_current`` connects
the two levels within a context. A copied context may outlive the request, so a request that has
ended is ignored.

latspan changes two objects. It adds the trace context to the headers of the httpx request, and
removes it when the transport returns or raises. It sets the ``trace`` extension of the httpcore
request, which httpx creates anew for each send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from latspan._instrument import Exchange, body_tracker, handle_internal_errors, log_internal_error
from latspan_httpx._events import Listener
from latspan_httpx._headers import Loan

__all__ = ["Aside", "TransportSend", "begin_send", "is_sending"]

_current: ContextVar[TransportSend | None] = ContextVar("latspan_httpx_sending", default=None)


def is_sending() -> bool:
    """Return whether a request is in progress in this context."""
    sending = _current.get()
    # A copy of the context may contain a request that has ended.
    return sending is not None and not sending.over


class Aside:
    """
    An untracked request inside a tracked one.

    While it is in progress, sends are not recorded on the tracked request.
    """

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token = _current.set(None)

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
            _current.reset(self._token)


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

    __slots__ = ("_active", "_loan", "_request", "_token", "exchange", "over", "sends")

    def __init__(self, exchange: Exchange, request: Any) -> None:
        self.exchange = exchange
        """The exchange."""
        self._request = request
        self._loan = Loan(exchange, request.headers)
        self.sends: list[tuple[Any, Any]] = []
        """httpcore request of each send, with the extensions that it had before."""
        self.over = False
        """Whether the transport has returned or raised."""
        self._token = _current.set(self)
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
            _current.reset(self._token)
        except ValueError:
            pass
        self._loan.give_back(self._request.headers)


def begin_send(request: Any, *, asynchronous: bool) -> Listener | None:
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
    sending = _current.get()
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
