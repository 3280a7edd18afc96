"""One request that a client of httpx's hands to its transport, and what the transport sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from typing import Any

from latspan.integrations import Exchange, body_tracker, handle_internal_errors, log_internal_error
from latspan_httpx._events import Listener
from latspan_httpx._headers import Loan

__all__ = ["Aside", "Send", "Sending"]

_current: ContextVar[Sending | None] = ContextVar("latspan_httpx_sending", default=None)


def _undo(token: Token[Sending | None]) -> None:
    # By hand: `suppress` is three calls, for each request. A coroutine that nobody awaits to its
    # end may be closed from another context.
    try:  # noqa: SIM105
        _current.reset(token)
    except ValueError:
        pass


class Aside:
    """A request that is not followed, inside one that is: its sends are not the other's."""

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token = _current.set(None)

    def failed(self, error: BaseException) -> None:
        """Hear that the transport raised ``error``."""
        del error
        self._leave()

    def answered(self, response: Any) -> None:
        """Hear that the transport returned ``response``."""
        del response
        self._leave()

    def _leave(self) -> None:
        _undo(self._token)


class Sending:
    """
    One request on its way through a transport, from now on.

    The request stays the caller's own, and what a transport changes in it stays changed. Only our
    trace context is among its headers meanwhile: sent again, or on to where a redirect points, it
    must not carry this exchange's identity.

    Args:
        exchange: What was begun for it.
        request: The client library's own.
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
    def current() -> Sending | None:
        """Return what is being sent in this context; a copy of it may still hold what is over."""
        sending = _current.get()
        return None if sending is None or sending._over else sending

    def send(self, request: Any, *, asynchronous: bool) -> Send:
        """
        Begin a send, now.

        Args:
            request: httpcore's own.
            asynchronous: Whether it is an asynchronous pool's.
        """
        send = Send(self._exchange, request, asynchronous=asynchronous)
        self._sends.append(send)
        return send

    def failed(self, error: BaseException) -> None:
        """Hear that the transport raised ``error``."""
        with handle_internal_errors("the failure of a request"):
            self._leave()
            self._exchange.failed(error)

    def answered(self, response: Any) -> None:
        """Hear that the transport returned ``response``, whose body is still to come."""
        try:
            self._leave()
            exchange = self._exchange
            exchange.answered(
                response.status_code, response.headers, response, request_body=exchange.sent.body
            )
            if exchange.call.reads is not None and exchange.attempt.error_type is None:
                # The reads of a stream say all there is to know of its body.
                for send in self._sends:
                    send.silence()
            watching = body_tracker(response)
            if watching is not None and response.is_closed:
                # Made in memory, by a mock or a cache: it was whole before anybody could read it.
                watching.ended(watching.reading())
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
    One time that a transport hands the request to a pool of httpcore's, from now on.

    httpcore tells of it as it goes, and the application's own ``trace`` callback afterwards.

    Args:
        exchange: What it is a send of.
        request: httpcore's own request, made for this send.
        asynchronous: Whether it is an asynchronous pool's.
    """

    __slots__ = ("_exchange", "_extensions", "_listener", "_request")

    def __init__(self, exchange: Exchange, request: Any, *, asynchronous: bool) -> None:
        self._exchange = exchange
        self._request = request
        self._extensions = request.extensions
        self._listener = listener = Listener(exchange.send_begins(), exchange.call.now, exchange)
        also = self._extensions.get("trace")
        hear: Callable[[str, Any], object] = listener.ahear if asynchronous else listener.hear
        if also is not None:
            hear = (_ahearing if asynchronous else _hearing)(listener.hear, also)
        request.extensions = {**self._extensions, "trace": hear}

    def silence(self) -> None:
        """Leave what is still to be told to the application's own callback."""
        # httpcore looks for the callback anew at each step.
        self._request.extensions = self._extensions

    def answered(self, response: Any) -> None:
        """Hear that the pool returned ``response``, httpcore's own."""
        # By hand: `handle_internal_errors` is three calls, for each request.
        try:
            self._exchange.try_answered(response.status, self._listener.attempt)
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, "the response to a send")

    def failed(self, error: BaseException) -> None:
        """Hear that the pool raised ``error``."""
        with handle_internal_errors("the failure of a send"):
            self._exchange.send_failed(error, self._listener.attempt)


def _hearing(
    first: Callable[[str, Any], object], then: Callable[[str, Any], object]
) -> Callable[[str, Any], object]:
    def hear(name: str, info: Any) -> object:
        first(name, info)
        # What it returns is httpcore's to judge.
        return then(name, info)

    return hear


def _ahearing(
    first: Callable[[str, Any], object], then: Callable[[str, Any], Awaitable[object]]
) -> Callable[[str, Any], Awaitable[None]]:
    async def hear(name: str, info: Any) -> None:
        first(name, info)
        await then(name, info)

    return hear
