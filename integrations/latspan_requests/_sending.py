"""One request on its way through urllib3: its tries, and what each of them was doing when."""

from __future__ import annotations

import socket
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from urllib3 import exceptions
from urllib3.util import parse_url

from latspan.integrations import (
    Exchange,
    Outcome,
    SegmentName,
    SentRequest,
    body_tracker,
    handle_internal_errors,
    is_excluded,
    outcome_of,
    outcome_of_status,
    port_of,
)
from latspan_requests._bodies import at_its_end

__all__ = ["Sending", "is_open"]

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_sending: ContextVar[Sending | None] = ContextVar("latspan_requests_sending", default=None)


class Sending:
    """
    One call of a pool's ``urlopen``, with what it calls itself again for.

    urllib3 tries again, and follows a redirect where neither requests nor its own manager does,
    by calling ``urlopen`` inside ``urlopen``. Another try is another attempt of the same
    exchange, a redirect is an exchange of its own.

    Args:
        exchange: What was begun for it.
        pool: The pool.
    """

    __slots__ = (
        "_added",
        "_answer",
        "_entered",
        "_failure",
        "_pool",
        "_preloaded",
        "_secure",
        "_token",
        "_try_over",
        "_tunnelled",
        "exchange",
        "over",
    )

    def __init__(self, exchange: Exchange, pool: Any) -> None:
        self.exchange = exchange
        self.over = False
        """Whether ``urlopen`` was left; a copied context may still hold this."""
        self._pool = pool
        self._secure = pool.scheme == "https"
        self._added: frozenset[str] = frozenset()
        self._begin_try()
        self._token = _sending.set(self)
        self._entered = exchange.active()

    def _begin_try(self) -> None:
        self._answer: Any = None
        self._failure: BaseException | None = None
        self._preloaded = self._try_over = self._tunnelled = False

    @staticmethod
    def current() -> Sending | None:
        """Return what is being sent in this context, if anything is."""
        sending = _sending.get()
        return None if sending is None or sending.over else sending

    @classmethod
    def begin(cls, pool: Any, method: object, url: object, body: object) -> Sending | None:
        """Begin to follow a call of ``urlopen``, now; ``None`` where there is nothing to do."""
        with handle_internal_errors("the start of a request"):
            # A body may be read from another response, which is sent for in the midst of a try.
            exchange = _exchange(pool, method, url, body, apart=cls.current() is not None)
            return None if exchange is None else cls(exchange, pool)
        return None

    @staticmethod
    @contextmanager
    def aside() -> Generator[None]:
        """Follow nothing inside: what is sent there is not part of what is being sent here."""
        token = _sending.set(None)
        try:
            yield
        finally:
            _sending.reset(token)

    def calls_itself_again(self, pool: Any) -> bool:
        """Return whether a call of ``urlopen`` inside this one is its own."""
        return pool is self._pool and self._try_over

    def again(self, method: object, url: object, body: object) -> bool:
        """
        Hear that ``urlopen`` calls itself again.

        Returns:
            Whether that is another exchange: a redirect, not another try.
        """
        with handle_internal_errors("another try of a request"):
            answer = self._answer
            redirected = (
                answer is not None
                and answer.status in _REDIRECTS
                and url == answer.headers.get("location")
            )
            if redirected:
                self._follow(answer, method, url, body)
            else:
                self.exchange.try_again()
            self._begin_try()
            return redirected
        return False

    def _follow(self, answer: Any, method: object, url: object, body: object) -> None:
        # urllib3 has read what was left of the body, and thrown it away.
        self._hand_over(answer, at_end=True)
        self._leave_exchange()
        following = _exchange(self._pool, method, url, body)
        if following is None:
            self._stop()
        else:
            self.exchange = following
            self._entered = following.active()

    def leave(self) -> None:
        """Hear that ``urlopen`` is left."""
        with handle_internal_errors("the end of a request"):
            if not self.over:
                self._leave_exchange()
                self._stop()

    def _leave_exchange(self) -> None:
        if self._entered is not None:
            self._entered.leave()

    def _stop(self) -> None:
        self.over = True
        self._answer = self._failure = None
        _sending.reset(self._token)

    def with_trace_context(self, headers: Any) -> Any:
        """
        Return ``headers`` with our trace context: a copy, or themselves where none is added.

        Args:
            headers: Of the request, in whatever mapping the caller has.
        """
        with handle_internal_errors("the trace context of a request"):
            if not hasattr(headers, "copy"):
                return headers
            carrier: MutableMapping[Any, Any] = headers.copy()
            for name in self._added:
                # That of the exchange which this one was redirected from.
                carrier.pop(name, None)
            names = frozenset(carrier)
            if not any(_lowered(name) == "traceparent" for name in names):
                carrier.update(self.exchange.trace_context())
            was_added, self._added = self._added, frozenset(carrier) - names
            return carrier if self._added or was_added else headers
        return headers

    # How it ends.

    def answered(self, response: Any) -> None:
        """Hear that ``urlopen`` returns ``response``."""
        with handle_internal_errors("the answer to a request"):
            if not self.over:
                self._hand_over(response, at_end=at_its_end(response))

    def _hand_over(self, response: Any, *, at_end: bool) -> None:
        exchange = self.exchange
        exchange.answered(
            response.status,
            response.headers,
            response,
            request_body=exchange.sent.body,
            decoded=True,
        )
        watching = body_tracker(response)
        if watching is None or watching.call is not exchange.call:
            return
        if self._preloaded and response.tell():
            headers_ns = exchange.attempt.headers_ns
            watching.read(headers_ns or watching.reading(), response.data)
        if at_end or self._preloaded:
            watching.ended(watching.reading())

    def failed(self, error: BaseException) -> None:
        """Hear that ``urlopen`` raises ``error``."""
        with handle_internal_errors("the failure of a request"):
            if self.over:
                return
            exchange, cause, answer = self.exchange, self._failure, self._answer
            refused = exchange.attempt.error_type
            if isinstance(error, exceptions.HTTPError) and cause is not None:
                exchange.failed(cause, outcome=_outcome_of(cause))
            elif isinstance(error, exceptions.MaxRetryError) and answer is not None and refused:
                outcome = outcome_of_status(answer.status, answer.headers)
                exchange.failed(error, outcome=outcome, error_type=refused)
            else:
                exchange.failed(error, outcome=_outcome_of(error))

    # What a try is doing. Each is one reading of the clock.

    def step_failed(self, error: BaseException) -> None:
        """Hear that a step of the try raised; urllib3 may try again."""
        if not self._try_over:
            self._try_over, self._failure = True, error
            self.exchange.try_failed(error)

    def acquired(self, connection: Any) -> None:
        """Hear that the pool gave a connection, open or to be opened."""
        attempt = self.exchange.attempt
        if attempt.pool_acquired_ns is None:
            attempt.pool_acquired_ns = self.exchange.call.now()
            attempt.reused = is_open(connection)
            attempt.phase = SegmentName.SEND if attempt.reused else SegmentName.CONNECT

    def resolved(self) -> None:
        """Hear that a host's name was looked up."""
        attempt = self.exchange.attempt
        if attempt.dns_done_ns is None and not self._tunnelled:
            attempt.dns_done_ns = self.exchange.call.now()
            attempt.phase = SegmentName.TCP

    def not_opened(self, error: BaseException) -> None:
        """Hear that no socket could be opened; for want of an address, it was the look-up."""
        if isinstance(error.__context__, socket.gaierror):
            self.exchange.attempt.phase = SegmentName.DNS

    def opened(self) -> None:
        """Hear that a socket is open, to the server or to a proxy."""
        attempt = self.exchange.attempt
        attempt.connected_ns = self.exchange.call.now()
        attempt.phase = SegmentName.TLS if self._secure else SegmentName.SEND

    def tunnelling(self) -> None:
        """Hear that a proxy is asked for a tunnel: what follows the look-up is not TCP alone."""
        attempt = self.exchange.attempt
        self._tunnelled, attempt.dns_done_ns = True, None
        attempt.phase = SegmentName.CONNECT

    def connected(self) -> None:
        """Hear that a connection stands, TLS included."""
        attempt = self.exchange.attempt
        now_ns = self.exchange.call.now()
        if attempt.connected_ns is None:
            # A kind of connection whose inside is not heard.
            attempt.connected_ns = now_ns
        elif self._secure:
            attempt.tls_done_ns = now_ns
        attempt.phase = SegmentName.SEND

    def sent(self) -> None:
        """Hear that the answer is waited for, so that everything was sent that could be."""
        attempt = self.exchange.attempt
        attempt.sent_ns = self.exchange.call.now()
        attempt.phase = SegmentName.SERVER_WAIT

    def headed(self) -> None:
        """Hear that the response headers are in."""
        attempt = self.exchange.attempt
        if attempt.headers_ns is None:
            attempt.headers_ns = self.exchange.call.now()

    def came(self, response: Any, *, preloaded: bool) -> None:
        """
        Hear that there is a response to the try.

        Args:
            response: The response.
            preloaded: Whether its body was read already.
        """
        if not self._try_over:
            self._try_over, self._answer, self._preloaded = True, response, preloaded
            self.exchange.try_answered(response.status)


def is_open(connection: Any) -> bool:
    """Return whether a connection has a socket; what an application puts in its place may not."""
    return getattr(connection, "sock", None) is not None


def _exchange(
    pool: Any, method: object, url: object, body: object, *, apart: bool = False
) -> Exchange | None:
    """Begin an exchange, unless what it was asked for is something that urllib3 will refuse."""
    if not isinstance(method, str) or not isinstance(url, str):
        return None
    scheme, host, port, path = pool.scheme, pool.host, pool.port, url
    if not url.startswith("/"):
        # Through a proxy that is no tunnel: the pool is the proxy's.
        try:
            parsed = parse_url(url)
        except exceptions.HTTPError:
            return None
        path = parsed.request_uri
        if parsed.host is not None:
            scheme, host, port = parsed.scheme or scheme, parsed.host, parsed.port
    # requests sends through urllib3, so what is excluded for one is excluded for both.
    if is_excluded(lambda: _url_of(scheme, host, port, path), "REQUESTS", "URLLIB3"):
        return None
    if isinstance(body, str):
        body = body.encode()
    return Exchange.begin(
        SentRequest(
            request=None,
            method=method,
            scheme=scheme,
            host=host.strip("[]"),
            port=port_of(scheme, port),
            path=path.partition("?")[0].partition("#")[0],
            body=body if isinstance(body, bytes) else None,
        ),
        official=("opentelemetry.instrumentation.urllib3", "URLLib3Instrumentor"),
        apart=apart,
    )


def _url_of(scheme: str, host: str, port: int | None, path: str) -> str:
    shown = "" if port is None or port == port_of(scheme, None) else f":{port}"
    return f"{scheme}://{host}{shown}{path}"


def _lowered(name: object) -> str:
    return (name.decode("latin-1") if isinstance(name, bytes) else str(name)).lower()


def _outcome_of(error: BaseException) -> Outcome:
    """Return how a request ended for which urllib3 raised ``error``."""
    if isinstance(error, exceptions.ProxyError):
        return _outcome_of(error.original_error)
    if isinstance(error, exceptions.NewConnectionError):
        # A refused connection is the timeout of one by its class, in urllib3 1.26.
        return Outcome.ERROR
    if isinstance(error, exceptions.EmptyPoolError):
        return Outcome.TIMEOUT
    return outcome_of(error)
