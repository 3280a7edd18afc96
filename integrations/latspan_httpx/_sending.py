"""
One request that an httpx client passes to its transport, and the sends of the transport.

The order of events: the client passes a request to its transport (:class:`TransportSend` begins);
the transport passes it to an httpcore pool, once or several times (:class:`Send` begins each time,
and receives httpcore's events); the pool returns or raises (the send ends); the transport returns
or raises (the request ends). ``_current`` connects the two levels within a context. A copied
context may outlive the request, so ``current`` ignores a request that has ended.

latspan changes two objects. It adds the trace context to the headers of the httpx request, and
removes it when the transport returns or raises. It sets the ``trace`` extension of the httpcore
request, which httpx creates anew for each send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from typing import Any

from latspan._instrument import Exchange, body_tracker, handle_internal_errors, log_internal_error
from latspan_httpx._events import Listener
from latspan_httpx._headers import Loan

__all__ = ["Aside", "Send", "TransportSend"]

_current: ContextVar[TransportSend | None] = ContextVar("latspan_httpx_sending", default=None)


def _undo(token: Token[TransportSend | None]) -> None:
    # Written out, because `suppress` costs three function calls per request. A coroutine that is
    # not awaited to its end may be closed from another context.
    try:  # noqa: SIM105
        _current.reset(token)
    except ValueError:
        pass


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
        _undo(self._token)


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

    __slots__ = ("_active", "_exchange", "_loan", "_over", "_request", "_sends", "_token")

    def __init__(self, exchange: Exchange, request: Any) -> None:
        self._exchange = exchange
        self._request = request
        self._loan = Loan(exchange, request.headers)
        self._sends: list[Send] = []
        self._over = False
        self._token = _current.set(self)
        self._active = exchange.active()

    @staticmethod
    def current() -> TransportSend | None:
        """
        Return the request that is being sent in this context, if any.

        A copy of the context may still contain a request that has ended; that is not returned.
        """
        sending = _current.get()
        return None if sending is None or sending._over else sending

    def send(self, request: Any, *, asynchronous: bool) -> Send:
        """
        Begin a send at the present time.

        Args:
            request: The httpcore request.
            asynchronous: Whether an asynchronous pool sends it.
        """
        send = Send(self._exchange, request, asynchronous=asynchronous)
        self._sends.append(send)
        return send

    def failed(self, error: BaseException) -> None:
        """Record that the transport raised ``error``."""
        with handle_internal_errors("the failure of a request"):
            self._leave()
            self._exchange.failed(error)

    def response_received(self, response: Any) -> None:
        """Record that the transport returned ``response``; its body may still be unread."""
        try:
            self._leave()
            exchange = self._exchange
            exchange.response_received(
                response.status_code, response.headers, response, request_body=exchange.sent.body
            )
            if exchange.call.reads is not None and exchange.attempt.error_type is None:
                # The recorded reads of a stream contain everything about its body, so httpcore's
                # events are no longer needed.
                for send in self._sends:
                    send.silence()
            tracker = body_tracker(response)
            if tracker is not None and response.is_closed:
                # A mock or a cache made the response in memory, so its body was complete before
                # the caller could read it.
                tracker.ended(tracker.reading())
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, "the response headers")

    def _leave(self) -> None:
        self._over = True
        if self._active is not None:
            self._active.leave()
        _undo(self._token)
        self._loan.give_back(self._request.headers)


class Send:
    """
    One request that a transport passes to an httpcore pool, from construction on.

    httpcore reports the events of the send to latspan first, and then latspan calls the
    application's own ``trace`` callback.

    Args:
        exchange: The exchange that the send belongs to.
        request: The httpcore request, made for this send.
        asynchronous: Whether an asynchronous pool sends it.
    """

    __slots__ = ("_exchange", "_extensions", "_listener", "_request")

    def __init__(self, exchange: Exchange, request: Any, *, asynchronous: bool) -> None:
        self._exchange = exchange
        self._request = request
        self._extensions = request.extensions
        self._listener = listener = Listener(exchange.send_begins(), exchange.call.now, exchange)
        also = self._extensions.get("trace")
        on_event: Callable[[str, Any], object] = (
            listener.on_event_async if asynchronous else listener.on_event
        )
        if also is not None:
            on_event = (_chained_async if asynchronous else _chained)(listener.on_event, also)
        request.extensions = {**self._extensions, "trace": on_event}

    def silence(self) -> None:
        """Stop receiving events; later ones go only to the application's own callback."""
        # httpcore looks up the callback again at each step.
        self._request.extensions = self._extensions

    def response_received(self, response: Any) -> None:
        """Record that the pool returned ``response``, an httpcore response."""
        # Written out, because `handle_internal_errors` costs three function calls per request.
        try:
            self._exchange.attempt_answered(response.status, self._listener.attempt)
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, "the response to a send")

    def failed(self, error: BaseException) -> None:
        """Record that the pool raised ``error``."""
        with handle_internal_errors("the failure of a send"):
            self._exchange.send_failed(error, self._listener.attempt)


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
