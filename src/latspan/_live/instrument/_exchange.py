"""One request and its response on a transport: an attempt of an open call, or standalone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from opentelemetry import context, trace

from latspan._live.instrument._bodies import track_body
from latspan._live.instrument._coexistence import is_instrumented
from latspan._live.instrument._first_streams import watch_stream
from latspan._live.instrument._hooks import adopt_llm_span, open_exchange
from latspan._live.instrument._outcomes import FIRST_ERROR_STATUS, error_type_of, outcome_of
from latspan._live.operations import (
    REDIRECTS,
    Entered,
    Operation,
    SentRequest,
    active_operation,
    propagates_here,
)
from latspan._live.otel.context_keys import is_http_suppressed
from latspan._model.segments import Outcome
from latspan._model.timeline import Attempt, answering


class Exchange:
    """
    One request and its response on the transport.

    A transport may send the request more than once: again after a failure, or a second time in
    parallel. Each send is an attempt. An integration that hooks the sends of one transport begins
    each further attempt with :meth:`try_again`. An integration that hooks a lower layer which all
    transports use (as the integration of httpx hooks httpcore) calls :meth:`send_begins` for each
    send. That method returns the attempt of the send. An attempt ends with :meth:`attempt_answered`
    or :meth:`attempt_failed`; the exchange ends with :meth:`response_received` or :meth:`failed`,
    which end the last attempt too.

    Args:
        operation: The operation that the exchange is an attempt of: an open call, or an HTTP
            exchange of its own if it is standalone.
        attempt: The attempt.
        sent: The request.
        alone: Whether the exchange is standalone; it then ends with its response.
        outer: The enclosing exchange, if this one belongs to a transport inside a transport: both
            share the outer one's attempts, and the outer one ends with its own response.
    """

    __slots__ = (
        "_failure",
        "_outer",
        "_unsent",
        "alone",
        "attempt",
        "connected_here",
        "operation",
        "sent",
    )

    def __init__(
        self,
        operation: Operation,
        attempt: Attempt,
        sent: SentRequest,
        *,
        alone: bool,
        outer: Exchange | None = None,
    ) -> None:
        self.operation = operation
        self.attempt = attempt
        self.sent = sent
        self.alone = alone
        self.connected_here = False
        """Whether a connection was opened for this exchange, as far as the transport reported."""
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
        asynchronous: bool = False,
    ) -> Exchange | None:
        """
        Begin an exchange now.

        Args:
            sent: The request. Neither credentials nor the query of its URL leave the process.
            official: Module and instrumentor class of OpenTelemetry's own instrumentation of this
                client; if it is on, it opens the HTTP span.
            start_up: Called before the attempt begins.
            apart: Whether the exchange is independent of the open operation. Example: the
                application sends the body of another response as the body of a request. The request
                for that other response is sent during the attempt, and is a separate exchange.
            asynchronous: Whether the transport waits on the event loop of this thread.

        Returns:
            The exchange; ``None`` if latspan is not configured or HTTP instrumentation is
            suppressed.
        """
        if is_http_suppressed(context.get_current()):
            return None
        operation = None if apart else active_operation()
        if operation is not None and not operation.own_requests.include(
            sent, in_this_context=operation.is_entered_here
        ):
            operation = None
        alone = operation is None
        if operation is None:
            operation = open_exchange(
                sent, spanned_elsewhere=official is not None and is_instrumented(*official)
            )
        if operation is None:
            return None
        if asynchronous:
            operation.watch_loop()
        if not alone and not operation.spanned:
            adopt_llm_span(operation)
        if start_up is not None:
            start_up()
        outer = cast("Exchange | None", operation.own_requests.under_way)
        if outer is not None:
            return cls(operation, outer.send_begins(), sent, alone=False, outer=outer)
        exchange = cls(operation, operation.open_attempt(sent.method), sent, alone=alone)
        operation.own_requests.under_way = exchange
        return exchange

    def active(self) -> Entered[Operation | None] | None:
        """
        Make this the active operation of this context, until ``leave`` of the result is called.

        Returns:
            ``None`` for an attempt of an open call: that call is active already, with any span
            that was made current inside it.
        """
        return self.operation.active() if self.alone else None

    def trace_context(self) -> tuple[tuple[str, str], ...]:
        """
        Return the names and values of ``traceparent`` and ``tracestate``, as far as available.

        Add them only to a request that has no ``traceparent`` yet; latspan adds no other header.
        The result is empty with ``LATSPAN_PROPAGATE=false``, and if ``OTEL_PROPAGATORS`` does not
        include ``tracecontext``.

        Source: W3C Trace Context, version 00.
        """
        if not self.operation.propagates or not propagates_here():
            return ()
        span = self.operation.span
        identity = span.span_context
        if not self.operation.spanned:
            # latspan has no span for this operation: propagate the enclosing span.
            identity = trace.get_current_span(span.context).get_span_context()
            if not identity.is_valid:
                return ()
        trace_id, span_id, _, flags, state, _ = identity
        # The header is formatted here, because a call of OpenTelemetry's propagator would take more
        # time than any other step of an operation.
        parent = ("traceparent", f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
        if state is trace.DEFAULT_TRACE_STATE or not state:
            return (parent,)
        return (parent, ("tracestate", state.to_header()))

    def send_begins(self) -> Attempt:
        """
        Return the attempt of a send that begins now.

        The first send belongs to the attempt that was opened with the exchange; that attempt then
        starts now, so the transport's earlier work is not part of it. Every further send gets an
        attempt of its own.
        """
        if self._unsent:
            self._unsent = False
            if self._outer is None:
                self.attempt.start_ns = self.operation.now()
        elif self._outer is None:
            self.attempt = self.operation.open_attempt(self.sent.method)
        else:
            self.attempt = self._outer.send_begins()
        return self.attempt

    def try_again(self) -> None:
        """Begin another attempt now, after an unsuccessful one."""
        self._unsent = False
        self.send_begins()
        self.connected_here = False

    def attempt_answered(
        self, status: object, attempt: Attempt | None = None, *, replaces: bool = False
    ) -> None:
        """
        Record that the transport returned the response headers of an attempt.

        Args:
            status: The HTTP status code. A mock, or a transport that the application provides, may
                pass text or anything else.
            attempt: The attempt, the current one if not given.
            replaces: Whether the status also replaces that of an attempt that has ended.
        """
        attempt = attempt or self.attempt
        if attempt.end_ns is None:
            attempt.end_ns = self.operation.now()
            if attempt.headers_ns is None:
                # The transport reports no events, so the time of the headers is not known yet.
                attempt.headers_ns = attempt.end_ns
        elif not replaces:
            return
        known = status if isinstance(status, int) else None
        attempt.status = known
        failed = known is not None and known >= FIRST_ERROR_STATUS
        attempt.error_type = str(known) if failed else None

    def attempt_failed(self, error: BaseException) -> None:
        """Record that an attempt raised ``error``; only the first error of an attempt counts."""
        self._fail(self.attempt, error)

    def send_failed(self, error: BaseException, attempt: Attempt) -> None:
        """
        Record that a send begun with :meth:`send_begins` raised; the transport may send again.

        Args:
            error: The error.
            attempt: The attempt.
        """
        if self._outer is not None:
            self._outer.send_failed(error, attempt)
        else:
            self._fail(attempt, error)
            self._failure = error

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        if attempt.end_ns is None:
            attempt.end_ns = self.operation.now()
            attempt.error_type = error_type_of(error)
            attempt.is_cancelled = outcome_of(error) is Outcome.CANCELLED

    def response_received(
        self,
        status: int,
        headers: Mapping[str, str],
        response: Any,
        *,
        request_body: bytes | None = None,
        decoded: bool = False,
    ) -> None:
        """
        Record that the caller received the response headers.

        Args:
            status: The HTTP status code.
            headers: The response headers, in a mapping that ignores case.
            response: The response; its body is tracked to its end if the exchange is standalone.
            request_body: The request's body, if it is available.
            decoded: Whether reads return the body without its content coding.
        """
        if self._outer is not None:
            self.attempt_answered(status)
            return
        operation = self.operation
        self._failure = None
        attempt = self.attempt
        if len(operation.attempts) > 1:
            attempt = self.attempt = answering(operation.attempts) or attempt
        if attempt.headers_ns is None and attempt.failed:
            # The transport got the response from elsewhere, after every send had failed.
            attempt = self.attempt = operation.open_attempt(self.sent.method)
        if attempt.end_ns is None or attempt.status != status:
            # The caller may receive another status than the transport did.
            self.attempt_answered(status, attempt, replaces=True)
        for other in operation.attempts:
            if other.end_ns is None:
                # The attempt was sent in parallel, and the transport does not wait for it.
                other.end_ns = attempt.end_ns
        requests = operation.own_requests
        requests.under_way = None
        if status in REDIRECTS or requests.redirected_to is not None:
            requests.redirected(self.sent, status, headers)
        operation.response_received(headers, request_body)
        if self.alone:
            operation.returned()
            track_body(operation, attempt, response, request_body, decoded=decoded)
        elif operation.reads is not None:
            watch_stream(operation, response)

    def failed(
        self,
        error: BaseException,
        *,
        outcome: Outcome | None = None,
        error_type: str | None = None,
    ) -> None:
        """
        Record that the transport raised.

        Args:
            error: The cause of the failure, which may be wrapped in the exception raised.
            outcome: Outcome of the exchange, if the class of ``error`` does not determine it.
            error_type: Its ``error.type``, if the class of ``error`` does not determine it.
        """
        if self._outer is not None:
            self._outer.send_failed(error, self.attempt)
            return
        attempt, failure = self.attempt, self._failure
        self._failure = self.operation.own_requests.under_way = None
        if failure is not None and (failure is error or failure is error.__cause__):
            # The failure of the send propagated to here, unchanged or as the cause of another.
            attempt.end_ns = attempt.error_type = None
            attempt.is_cancelled = False
        ended_ns = attempt.end_ns
        self.attempt_failed(error)
        if self.alone:
            self.operation.end(
                outcome or outcome_of(error),
                # If the attempt ended earlier, the transport spent the time since then on other
                # work.
                done_ns=attempt.end_ns if ended_ns is None else None,
                error_type=error_type or error_type_of(error),
            )
