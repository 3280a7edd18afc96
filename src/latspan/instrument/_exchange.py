"""One request and its response on a transport: a try of an open call, or one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import trace

from latspan import semconv
from latspan._request import Entered, propagates_here
from latspan.instrument._beside import is_on
from latspan.instrument._bodies import watch_body
from latspan.instrument._clients import port_of
from latspan.instrument._hooks import (
    Attempt,
    Call,
    active_call,
    adopt_llm_span,
    open_exchange,
)
from latspan.instrument._outcomes import error_type_of, is_error, outcome_of
from latspan.segments import Outcome

__all__ = ["Exchange"]


class Exchange:
    """
    One request and its response on the transport.

    Where the transport itself tries again, each try begins with :meth:`try_again` and ends with
    :meth:`try_answered` or :meth:`try_failed`; the exchange ends with :meth:`answered` or
    :meth:`failed`, which end the last try too.

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
        apart: bool = False,
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
            apart: It is no part of what is going on, which a body may be read for.

        Returns:
            ``None`` where there is nothing to do.
        """
        port = port_of(scheme, port)
        call = None if apart else active_call()
        outer = call.attempts[-1] if call is not None and call.attempts else None
        inside = outer is not None and outer.end_ns is None
        alone = (
            call is None
            or call.server not in {None, (host, port)}
            # Not a transport beneath, but something else that the transport sends meanwhile.
            or (inside and call.sending != (method, path))
        )
        if alone:
            call = open_exchange(
                method,
                server=(host, port),
                spanned_elsewhere=official is not None and is_on(*official),
                attributes={
                    semconv.HTTP_REQUEST_METHOD: method,
                    semconv.SERVER_ADDRESS: host,
                    semconv.SERVER_PORT: port,
                    semconv.URL_FULL: f"{scheme}://{_in_url(host)}:{port}{path}",
                },
            )
        if call is None:
            return None
        if not alone and not call.spanned:
            adopt_llm_span(call)
        if start_up is not None:
            start_up()
        call.method, call.sending = method, (method, path)
        if inside and outer is not None and not alone:
            return cls(call, outer, alone=False, outermost=False)
        return cls(call, call.open_attempt(), alone=alone, outermost=True)

    def active(self) -> Entered[Call | None] | None:
        """
        Be, until :meth:`~latspan._request.Entered.leave`, the call that is found in this context.

        Returns:
            ``None`` for a try of an open call: that is the one already, with whatever was made
            current inside it.
        """
        return self.call.active() if self.alone else None

    def trace_context(self) -> tuple[tuple[str, str], ...]:
        """
        Return ``traceparent`` and ``tracestate``, names and values, as far as there is any.

        They are for a request that has no ``traceparent`` yet. This is the one thing that latspan
        adds to what is sent. ``LATSPAN_PROPAGATE=false`` and ``OTEL_PROPAGATORS`` without
        ``tracecontext`` turn it off.

        Source: W3C Trace Context, version 00.
        """
        if not self.call.propagates or not propagates_here():
            return ()
        span = self.call.span
        identity = span.span_context
        if not self.call.spanned:
            # No span of ours: the one that it is in is told.
            identity = trace.get_current_span(span.context).get_span_context()
            if not identity.is_valid:
                return ()
        trace_id, span_id, _, flags, state, _ = identity
        # By hand: through OpenTelemetry's propagator this was the dearest step of a call.
        parent = ("traceparent", f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
        return (parent, ("tracestate", state.to_header())) if state else (parent,)

    def try_again(self) -> None:
        """Begin another try, now; the one before came to nothing."""
        if self._outermost:
            self.attempt = self.call.open_attempt()
            self.connected_here = False

    def try_answered(self, status: int) -> None:
        """
        Hear that the response headers of a try were handed over.

        Args:
            status: The HTTP status code.
        """
        if not self._outermost:
            return
        attempt = self.attempt
        attempt.end_ns = self.call.now()
        if attempt.headers_ns is None:
            # A transport beneath that gives no events.
            attempt.headers_ns = attempt.end_ns
        attempt.status = status
        if is_error(status):
            attempt.error_type = str(status)

    def try_failed(self, error: BaseException) -> None:
        """Hear that a try raised ``error``; of several errors on the way up the first counts."""
        attempt = self.attempt
        if self._outermost and attempt.end_ns is None:
            attempt.end_ns = self.call.now()
            attempt.error_type = error_type_of(error)

    def answered(
        self,
        status: int,
        headers: Mapping[str, str],
        response: Any,
        *,
        request_body: bytes | None = None,
        decoded: bool = False,
    ) -> None:
        """
        Hear that the response headers were handed over to the caller.

        Args:
            status: The HTTP status code.
            headers: The response headers, in whatever mapping ignores case.
            response: Whose body is followed to its end if the exchange is one of its own.
            request_body: What was sent, if it is at hand.
            decoded: Whether reads bring the body without its content coding.
        """
        if not self._outermost:
            return
        call, attempt = self.call, self.attempt
        if attempt.end_ns is None:
            self.try_answered(status)
        call.headers = headers
        if self.alone:
            call.returned()
            watch_body(call, attempt, response, request_body, decoded=decoded)
        elif call.gathered is not None and call.request is None:
            # Its client library's integration has not taken it down.
            call.request = request_body

    def failed(
        self,
        error: BaseException,
        *,
        outcome: Outcome | None = None,
        error_type: str | None = None,
    ) -> None:
        """
        Hear that the transport raised.

        Args:
            error: What made it fail, which may lie beneath what it raised.
            outcome: How the exchange ended, where the class of ``error`` does not say.
            error_type: The same of its ``error.type``.
        """
        if not self._outermost:
            return
        ended_ns = self.attempt.end_ns
        self.try_failed(error)
        if self.alone:
            self.call.finish(
                outcome or outcome_of(error),
                # After a try that had ended before, the transport did something else until now.
                done_ns=self.attempt.end_ns if ended_ns is None else None,
                error_type=error_type or error_type_of(error),
            )


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
