"""
One request in urllib3: its attempts, and the timestamps and phases of each attempt.

The hooks in ``_pools.py`` and ``_connections.py`` call this object in the following order:
``acquired`` (a connection from the pool); for a new connection ``resolved``, ``opened`` and
``connected``, with ``tunnelling`` in between for a proxy; ``sent``; ``headers_received``; and
``attempt_response_received``, or ``step_failed`` for a step that raised. An attempt ends with the
first of the last two. After that, a call of ``urlopen`` on the same pool is a retry or a redirect
of this request; before that, it is another request, for example for the body to send.

``_sending`` holds the request of the current context. A copied context may outlive the request, so
``current`` ignores a request that has ended.
"""

from __future__ import annotations

import socket
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from urllib3 import exceptions
from urllib3.util import parse_url

from latspan._live.instrument import (
    Exchange,
    SentRequest,
    body_tracker,
    handle_internal_errors,
    is_excluded,
    outcome_of,
    outcome_of_status,
    port_of,
)
from latspan._model.segments import Outcome, SegmentName
from latspan_instrumentation.requests._bodies import at_its_end

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_sending: ContextVar[UrlopenCall | None] = ContextVar("latspan_requests_sending", default=None)


class UrlopenCall:
    """
    One call of a pool's ``urlopen``, including its recursive calls.

    urllib3 retries by calling ``urlopen`` inside ``urlopen``, and follows a redirect the same way
    if neither requests nor its own pool manager does. A retry is another attempt of the same
    exchange; a redirect is an exchange of its own.

    Args:
        exchange: The exchange that was begun for the call.
        pool: The pool.
    """

    __slots__ = (
        "_added",
        "_answer",
        "_attempt_over",
        "_entered",
        "_failure",
        "_pool",
        "_preloaded",
        "_secure",
        "_token",
        "_tunnelled",
        "exchange",
        "over",
    )

    def __init__(self, exchange: Exchange, pool: Any) -> None:
        self.exchange = exchange
        self.over = False
        """Whether ``urlopen`` has ended; a copied context may still contain this object."""
        self._pool = pool
        self._secure = pool.scheme == "https"
        self._added: frozenset[str] = frozenset()
        self._begin_attempt()
        self._token = _sending.set(self)
        self._entered = exchange.active()

    def _begin_attempt(self) -> None:
        self._answer: Any = None
        self._failure: BaseException | None = None
        self._preloaded = self._attempt_over = self._tunnelled = False

    @staticmethod
    def current() -> UrlopenCall | None:
        """Return the request that is being sent in this context, if any."""
        sending = _sending.get()
        return None if sending is None or sending.over else sending

    @classmethod
    def begin(cls, pool: Any, method: object, url: object, body: object) -> UrlopenCall | None:
        """Begin to track a call of ``urlopen``; return ``None`` if it is not to be tracked."""
        with handle_internal_errors("the start of a request"):
            # The body of a request may be read from another response, so another request may be
            # sent in the middle of an attempt.
            exchange = _exchange(pool, method, url, body, apart=cls.current() is not None)
            return None if exchange is None else cls(exchange, pool)
        return None

    @staticmethod
    @contextmanager
    def aside() -> Generator[None]:
        """
        Suspend the tracking inside the block.

        A request that is sent there is not part of the request that is being sent outside.
        """
        token = _sending.set(None)
        try:
            yield
        finally:
            _sending.reset(token)

    def calls_itself_again(self, pool: Any) -> bool:
        """Return whether a nested call of ``urlopen`` is a retry or a redirect of this request."""
        return pool is self._pool and self._attempt_over

    def retry_or_redirect(self, method: object, url: object, body: object) -> bool:
        """
        Record that ``urlopen`` calls itself again.

        Returns:
            Whether the call is another exchange: a redirect, not a retry.
        """
        with handle_internal_errors("another attempt of a request"):
            response = self._answer
            redirected = (
                response is not None
                and response.status in _REDIRECTS
                and url == response.headers.get("location")
            )
            if redirected:
                self._track(response, method, url, body)
            else:
                self.exchange.try_again()
            self._begin_attempt()
            return redirected
        return False

    def _track(self, response: Any, method: object, url: object, body: object) -> None:
        # urllib3 has read the rest of the body and discarded it.
        self._hand_over(response, at_end=True)
        self._leave_exchange()
        following = _exchange(self._pool, method, url, body)
        if following is None:
            self._stop()
        else:
            self.exchange = following
            self._entered = following.active()

    def leave(self) -> None:
        """Stop tracking, because ``urlopen`` returns or raises."""
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
        Return a copy of ``headers`` with latspan's trace context, or ``headers`` if unchanged.

        Args:
            headers: The headers of the request, in any mapping that the caller uses.
        """
        with handle_internal_errors("the trace context of a request"):
            if not hasattr(headers, "copy"):
                return headers
            carrier: MutableMapping[Any, Any] = headers.copy()
            for name in self._added:
                # This is the trace context of the exchange that was redirected to this one.
                carrier.pop(name, None)
            names = frozenset(carrier)
            if not any(_lowered(name) == "traceparent" for name in names):
                carrier.update(self.exchange.trace_context())
            was_added, self._added = self._added, frozenset(carrier) - names
            return carrier if self._added or was_added else headers
        return headers

    # The end of the call.

    def response_received(self, response: Any) -> None:
        """Record that ``urlopen`` returns ``response``."""
        with handle_internal_errors("the response to a request"):
            if not self.over:
                self._hand_over(response, at_end=at_its_end(response))

    def _hand_over(self, response: Any, *, at_end: bool) -> None:
        exchange = self.exchange
        exchange.response_received(
            response.status,
            response.headers,
            response,
            request_body=exchange.sent.body,
            decoded=True,
        )
        tracker = body_tracker(response)
        if tracker is None or tracker.operation is not exchange.operation:
            return
        if self._preloaded and response.tell():
            headers_ns = exchange.attempt.headers_ns
            tracker.read(headers_ns or tracker.reading(), response.data)
        if at_end or self._preloaded:
            tracker.ended(tracker.reading())

    def failed(self, error: BaseException) -> None:
        """Record that ``urlopen`` raises ``error``."""
        with handle_internal_errors("the failure of a request"):
            if self.over:
                return
            exchange, cause, response = self.exchange, self._failure, self._answer
            refused = exchange.attempt.error_type
            if isinstance(error, exceptions.HTTPError) and cause is not None:
                exchange.failed(cause, outcome=_outcome_of(cause))
            elif isinstance(error, exceptions.MaxRetryError) and response is not None and refused:
                outcome = outcome_of_status(response.status, response.headers)
                exchange.failed(error, outcome=outcome, error_type=refused)
            else:
                exchange.failed(error, outcome=_outcome_of(error))

    # The steps of an attempt. Each method reads the clock at most once.

    def step_failed(self, error: BaseException) -> None:
        """Record that a step of the attempt raised; urllib3 may retry."""
        if not self._attempt_over:
            self._attempt_over, self._failure = True, error
            self.exchange.attempt_failed(error)

    def acquired(self, connection: Any) -> None:
        """Record that the pool returned a connection, open or still to be opened."""
        attempt = self.exchange.attempt
        if attempt.pool_acquired_ns is None:
            attempt.pool_acquired_ns = self.exchange.operation.now()
            attempt.reused = is_open(connection)
            attempt.phase = SegmentName.SEND if attempt.reused else SegmentName.CONNECT

    def resolved(self) -> None:
        """Record that the look-up of the host name has ended."""
        attempt = self.exchange.attempt
        if attempt.dns_done_ns is None and not self._tunnelled:
            attempt.dns_done_ns = self.exchange.operation.now()
            attempt.phase = SegmentName.TCP

    def not_opened(self, error: BaseException) -> None:
        """Record that opening a socket failed; after a ``gaierror``, in the look-up."""
        if isinstance(error.__context__, socket.gaierror):
            self.exchange.attempt.phase = SegmentName.DNS

    def opened(self) -> None:
        """Record that a socket is open, to the server or to a proxy."""
        attempt = self.exchange.attempt
        attempt.connected_ns = self.exchange.operation.now()
        attempt.phase = SegmentName.TLS if self._secure else SegmentName.SEND

    def tunnelling(self) -> None:
        """
        Record that a tunnel is requested from a proxy.

        The time after the look-up is then not TCP alone, so it is not split.
        """
        attempt = self.exchange.attempt
        self._tunnelled, attempt.dns_done_ns = True, None
        attempt.phase = SegmentName.CONNECT

    def connected(self) -> None:
        """Record that a connection is established, TLS included."""
        attempt = self.exchange.attempt
        now_ns = self.exchange.operation.now()
        if attempt.connected_ns is None:
            # The steps of this kind of connection are not hooked, so only its end is known.
            attempt.connected_ns = now_ns
        elif self._secure:
            attempt.tls_done_ns = now_ns
        attempt.phase = SegmentName.SEND

    def sent(self) -> None:
        """Record that urllib3 waits for the response, so the request has been sent."""
        attempt = self.exchange.attempt
        attempt.sent_ns = self.exchange.operation.now()
        attempt.phase = SegmentName.SERVER_WAIT

    def headers_received(self) -> None:
        """Record that the response headers have been received."""
        attempt = self.exchange.attempt
        if attempt.headers_ns is None:
            attempt.headers_ns = self.exchange.operation.now()

    def attempt_response_received(self, response: Any, *, preloaded: bool) -> None:
        """
        Record the response to the attempt.

        Args:
            response: The response.
            preloaded: Whether its constructor has read the body.
        """
        if not self._attempt_over:
            self._attempt_over, self._answer, self._preloaded = True, response, preloaded
            self.exchange.attempt_answered(response.status)


def is_open(connection: Any) -> bool:
    """
    Return whether a connection has a socket.

    An application's replacement for a connection may not have the attribute ``sock``.
    """
    return getattr(connection, "sock", None) is not None


def _exchange(
    pool: Any, method: object, url: object, body: object, *, apart: bool = False
) -> Exchange | None:
    """Begin an exchange; return ``None`` if it is excluded or urllib3 will refuse the request."""
    if not isinstance(method, str) or not isinstance(url, str):
        return None
    scheme, host, port, path = pool.scheme, pool.host, pool.port, url
    if not url.startswith("/"):
        # The request goes through a proxy without a tunnel, so the pool is the proxy's, and only
        # the URL contains the server.
        try:
            parsed = parse_url(url)
        except exceptions.HTTPError:
            return None
        path = parsed.request_uri
        if parsed.host is not None:
            scheme, host, port = parsed.scheme or scheme, parsed.host, parsed.port
    # requests sends through urllib3, so a URL excluded for one library is excluded for both.
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
    """Return the outcome of a request for which urllib3 raised ``error``."""
    if isinstance(error, exceptions.ProxyError):
        return _outcome_of(error.original_error)
    if isinstance(error, exceptions.NewConnectionError):
        # In urllib3 1.26 the class for a refused connection is a subclass of the connect timeout.
        return Outcome.ERROR
    if isinstance(error, exceptions.EmptyPoolError):
        return Outcome.TIMEOUT
    return outcome_of(error)
