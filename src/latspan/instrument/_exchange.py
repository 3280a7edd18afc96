"""One request and its response on a transport: a try of an open call, or one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

from latspan import semconv
from latspan._runtime import guarded
from latspan.instrument._beside import is_on
from latspan.instrument._bodies import watch_body
from latspan.instrument._hooks import (
    Attempt,
    Call,
    active_call,
    adopt_llm_span,
    inject_trace_context,
    open_exchange,
)
from latspan.instrument._outcomes import error_type_of, outcome_of

__all__ = ["Exchange"]

_FIRST_ERROR_STATUS: Final = 400
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Exchange:
    """
    One request and its response on the transport.

    Args:
        call: The call it is a try of, or an exchange of its own.
        attempt: The try.
        alone: Whether it is an exchange of its own, which ends with its response.
        outermost: Whether it began the try; a transport inside another adds to the other's.
    """

    __slots__ = ("_outermost", "alone", "attempt", "call", "connected_here")

    def __init__(self, call: Call, attempt: Attempt, *, alone: bool, outermost: bool) -> None:
        self.call = call
        self.attempt = attempt
        self.alone = alone
        self.connected_here = False
        """Whether a connection was made for it, as far as was heard."""
        self._outermost = outermost

    @classmethod
    def begin(
        cls,
        method: str,
        *,
        scheme: str,
        host: str,
        port: int | None,
        path: str,
        official: tuple[str, str] | None = None,
        start_up: Callable[[], None] | None = None,
    ) -> Exchange | None:
        """
        Begin an exchange, now.

        Args:
            method: The HTTP method.
            scheme: ``http`` or ``https``.
            host: Where it goes to.
            port: The port, ``None`` for the scheme's own.
            path: The URL's path. Neither credentials nor the query leave the process.
            official: OpenTelemetry's own instrumentation of this client, a module and the name of
                its instrumentor: where it is on, the HTTP span is its.
            start_up: Done before the try begins.

        Returns:
            ``None`` where there is nothing to do.
        """
        with guarded("the start of a request"):
            port = port or _DEFAULT_PORTS.get(scheme, 443)
            call = active_call()
            alone = call is None or call.server not in {None, (host, port)}
            if alone:
                call = open_exchange(
                    method,
                    server=(host, port),
                    spanned_elsewhere=official is not None and is_on(*official),
                    attributes={
                        semconv.HTTP_REQUEST_METHOD: method,
                        semconv.SERVER_ADDRESS: host,
                        semconv.SERVER_PORT: port,
                        semconv.URL_FULL: f"{scheme}://{host}:{port}{path}",
                    },
                )
            if call is None:
                return None
            if not alone:
                adopt_llm_span(call)
            if start_up is not None:
                start_up()
            call.method = method
            outer = call.attempts[-1] if call.attempts else None
            if outer is not None and outer.end_ns is None:
                return cls(call, outer, alone=False, outermost=False)
            return cls(call, call.open_attempt(), alone=alone, outermost=True)
        return None

    def inject(self, headers: MutableMapping[str, str]) -> None:
        """Add our trace context to what is sent, once."""
        with guarded("the trace context of a request"):
            inject_trace_context(self.call, headers)

    def answered(
        self,
        status: int,
        headers: Mapping[str, str],
        response: Any,
        *,
        request_body: bytes | None = None,
    ) -> None:
        """
        Hear that the response headers were handed over.

        Args:
            status: The HTTP status code.
            headers: The response headers, in whatever mapping ignores case.
            response: Whose body is followed to its end if the exchange is one of its own.
            request_body: What was sent, if it is at hand.
        """
        if not self._outermost:
            return
        call, attempt = self.call, self.attempt
        attempt.end_ns = call.now()
        with guarded("the response headers"):
            if attempt.headers_ns is None:
                # A transport beneath that gives no events.
                attempt.headers_ns = attempt.end_ns
            attempt.status = status
            call.headers = headers
            if status >= _FIRST_ERROR_STATUS:
                attempt.error_type = str(status)
            if self.alone:
                call.returned()
                watch_body(call, attempt, response, request_body)

    def failed(self, error: BaseException) -> None:
        """Hear that the transport raised."""
        if not self._outermost:
            return
        call, attempt = self.call, self.attempt
        attempt.end_ns = call.now()
        attempt.error_type = error_type_of(error)
        if self.alone:
            call.finish(outcome_of(error), done_ns=attempt.end_ns, error_type=attempt.error_type)
