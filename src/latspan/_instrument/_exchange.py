"""One request and its response on a transport: an attempt of an open call, or one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from opentelemetry import trace

from latspan import semconv
from latspan._instrument._bodies import track_body
from latspan._instrument._coexistence import is_instrumented
from latspan._instrument._hooks import (
    Attempt,
    Call,
    active_call,
    adopt_llm_span,
    open_exchange,
)
from latspan._instrument._outcomes import error_type_of, is_error, outcome_of
from latspan._operations import Entered, SentRequest, propagates_here
from latspan._segments import Outcome
from latspan._timeline import answering

__all__ = ["Exchange"]


class Exchange:
    """
    One request and its response on the transport.

    A transport may send it more than once: again after a failure, or a second time meanwhile.
    Each send is a try. A transport that knows only its own sends begins each with
    :meth:`try_again`; one that knows them from those below it asks :meth:`send_begins` for the
    try that a send is of. A try ends with :meth:`try_answered` or :meth:`try_failed`; the exchange
    ends with :meth:`answered` or :meth:`failed`, which end the last try too.

    Args:
        call: The call it is a try of, or an exchange of its own.
        attempt: The try.
        sent: The request.
        alone: Whether it is an exchange of its own, which ends with its response.
        outer: The exchange that it carries on, a transport inside a transport: its tries are the
            other's, and the other ends with its own response.
    """

    __slots__ = (
        "_failure",
        "_outer",
        "_unsent",
        "alone",
        "attempt",
        "call",
        "connected_here",
        "sent",
    )

    def __init__(
        self,
        call: Call,
        attempt: Attempt,
        sent: SentRequest,
        *,
        alone: bool,
        outer: Exchange | None = None,
    ) -> None:
        self.call = call
        self.attempt = attempt
        self.sent = sent
        self.alone = alone
        self.connected_here = False
        """Whether a connection was made for it, as far as was heard."""
        self._outer = outer
        self._unsent = True
        self._failure: BaseException | None = None

    @classmethod
    def begin(
        cls,
        sent: SentRequest,
        *,
        official: tuple[str, str] | None = None,
        start_up: Callable[[], None] | None = None,
        apart: bool = False,
    ) -> Exchange | None:
        """
        Begin an exchange, now.

        Args:
            sent: The request. Neither credentials nor the query of its URL leave the process.
            official: OpenTelemetry's own instrumentation of this client, a module and the name of
                its instrumentor: where it is on, the HTTP span is its.
            start_up: Done before the try begins.
            apart: It is no part of what is going on, which a body may be read for.

        Returns:
            ``None`` where there is nothing to do.
        """
        call = None if apart else active_call()
        if call is not None and not call.own_requests.include(
            sent, in_this_context=call.is_entered_here
        ):
            call = None
        alone = call is None
        if call is None:
            call = open_exchange(
                sent.method,
                server=(sent.host, sent.port),
                spanned_elsewhere=official is not None and is_instrumented(*official),
                attributes={
                    semconv.HTTP_REQUEST_METHOD: sent.method,
                    semconv.SERVER_ADDRESS: sent.host,
                    semconv.SERVER_PORT: sent.port,
                    semconv.URL_FULL: sent.url,
                },
            )
        if call is None:
            return None
        if not alone and not call.spanned:
            adopt_llm_span(call)
        if start_up is not None:
            start_up()
        call.method = sent.method
        outer = cast("Exchange | None", call.own_requests.under_way)
        if outer is not None:
            return cls(call, outer.send_begins(), sent, alone=False, outer=outer)
        exchange = cls(call, call.open_attempt(), sent, alone=alone)
        call.own_requests.under_way = exchange
        return exchange

    def active(self) -> Entered[Call | None] | None:
        """
        Make this the call that is found in this context, until the result is left.

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

    def send_begins(self) -> Attempt:
        """
        Return the try that a send is of, which begins now.

        The first send is of the try that began with the exchange; what the transport did before
        it is no part of that. Every further one is of another try.
        """
        if self._unsent:
            self._unsent = False
            if self._outer is None:
                self.attempt.start_ns = self.call.now()
        elif self._outer is None:
            self.attempt = self.call.open_attempt()
        else:
            self.attempt = self._outer.send_begins()
        return self.attempt

    def try_again(self) -> None:
        """Begin another try, now; the one before came to nothing."""
        self._unsent = False
        self.send_begins()
        self.connected_here = False

    def try_answered(self, status: int, attempt: Attempt | None = None) -> None:
        """
        Hear that the response headers of a try were handed over.

        Args:
            status: The HTTP status code.
            attempt: The try, the current one if not given.
        """
        attempt = attempt or self.attempt
        if attempt.end_ns is None:
            attempt.end_ns = self.call.now()
            if attempt.headers_ns is None:
                # A transport beneath that gives no events.
                attempt.headers_ns = attempt.end_ns
            _has_status(attempt, status)

    def try_failed(self, error: BaseException) -> None:
        """Hear that a try raised ``error``; of several errors on the way up the first counts."""
        self._fail(self.attempt, error)

    def send_failed(self, error: BaseException, attempt: Attempt) -> None:
        """
        Hear that a send of :meth:`send_begins` raised; the transport above may send again.

        Args:
            error: The error.
            attempt: The try.
        """
        if self._outer is not None:
            self._outer.send_failed(error, attempt)
        else:
            self._fail(attempt, error)
            self._failure = error

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        if attempt.end_ns is None:
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
        if self._outer is not None:
            self.try_answered(status)
            return
        call = self.call
        attempt = self._answered_try(status)
        call.own_requests.under_way = None
        call.own_requests.answered(self.sent, status, headers)
        call.headers = headers
        if self.alone:
            call.returned()
            track_body(call, attempt, response, request_body, decoded=decoded)
        elif call.gathered is not None and call.request is None:
            # Its client library's integration has not taken it down.
            call.request = request_body

    def _answered_try(self, status: int) -> Attempt:
        """End every try, and return the one that brought the response."""
        self._failure = None
        attempts = self.call.attempts
        answered = self.attempt = answering(attempts) or self.attempt
        if answered.headers_ns is None and answered.failed:
            # The transport had the response from elsewhere, after every send had failed.
            answered = self.attempt = self.call.open_attempt()
        self.try_answered(status)
        _has_status(answered, status)
        for attempt in attempts:
            if attempt.end_ns is None:
                # It was sent at the same time, and is not waited for.
                attempt.end_ns = answered.end_ns
        return answered

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
        if self._outer is not None:
            self._outer.send_failed(error, self.attempt)
            return
        attempt, failure = self.attempt, self._failure
        self._failure = self.call.own_requests.under_way = None
        if failure is not None and (failure is error or failure is error.__cause__):
            # The failure of the send came up to here, as it was or as the cause of another.
            attempt.end_ns = attempt.error_type = None
        ended_ns = attempt.end_ns
        self.try_failed(error)
        if self.alone:
            self.call.finish(
                outcome or outcome_of(error),
                # After a try that had ended before, the transport did something else until now.
                done_ns=attempt.end_ns if ended_ns is None else None,
                error_type=error_type or error_type_of(error),
            )


def _has_status(attempt: Attempt, status: object) -> None:
    # A mock's, or a transport of the application's own, may have text here or anything else.
    known = status if isinstance(status, int) else None
    attempt.status = known
    attempt.error_type = str(known) if known is not None and is_error(known) else None
