"""
Requests that this process serves: span, timeline and attributes.

A served request begins with :meth:`ServerRequest.begin` and ends with the first of ``sent``,
``disconnected``, ``cut_short`` and ``failed``; later ones have no effect. ``answering`` and
``wrote`` may be called any number of times before. ``leave`` follows in the context in which the
request began: a server may iterate the body, and so end the request, on another thread, where the
context cannot be restored. The name of the span and the route are set at the end, because a
framework finds the route only while it handles the request.

**Other instrumentations.** There must be one span of kind SERVER per request. If another
instrumentation has opened that span before the request begins here, latspan adds to the span. If
the other instrumentation opens it later, inside the framework, the request begins with
``awaits_span``: it has no span, and latspan does not read the caller's trace context. The other
instrumentation reads that context itself, but only if no span is current. ``adopt`` then passes its
span.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

from opentelemetry import context, propagate, trace
from opentelemetry.trace import SpanKind

from latspan import semconv
from latspan._base.internal_errors import handle_internal_errors
from latspan._base.nanoseconds import NS_PER_MS
from latspan._live.instrument._hooks import is_suppressed
from latspan._live.instrument._outcomes import error_type_of, outcome_of, outcome_of_status
from latspan._live.operations import (
    Known,
    LocalScope,
    active_operation,
    active_scope,
    is_left_over,
    request_around,
    with_attribute_of,
)
from latspan._live.otel.spans import AttributeValue, EnrichingSink, NoSink
from latspan._live.process.runtime import current_runtime
from latspan._model.metrics import TIME_TO_FIRST_CHUNK, MetricValue
from latspan._model.segments import Kind, Outcome, Side, Stage
from latspan._model.timeline import Activity

_FIRST_SERVER_ERROR: Final = 500
_METHODS: Final = frozenset(
    ("GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE", "QUERY")
)
_ANY_METHOD: Final = "HTTP"
"""Replacement of an unknown method in span names, because clients may send any word as method."""
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_HELD_UP_NS: Final = NS_PER_MS
"""
Duration above which a write counts as blocked, by the network or by a client that does not read.
"""


class ServerRequest:
    """
    One request that this process serves, until its response has been sent or has failed.

    Args:
        scope: The scope of the request.
        exit_stack: Contexts that were entered around the scope, to be left after it.
        method: The HTTP method.
        route: Returns the route's template, once it is known.
        now: Returns the clock's monotonic reading, nanoseconds.
    """

    __slots__ = (
        "_exit_stack",
        "_first_ns",
        "_method",
        "_now",
        "_raised",
        "_route",
        "_scope",
        "_status",
        "headers",
    )

    def __init__(
        self,
        scope: LocalScope,
        exit_stack: ExitStack,
        *,
        method: str,
        route: Callable[[], str | None],
        now: Callable[[], int],
    ) -> None:
        self._scope = scope
        self._exit_stack = exit_stack
        self._method = method
        self._route = route
        self._now = now
        self._status: int | None = None
        self._first_ns: int | None = None
        self._raised: BaseException | None = None
        self.headers: Mapping[str, str] = {}
        """Response headers, names in lower case."""
        scope.on_abandon = self.abandoned

    @classmethod
    def begin(
        cls,
        method: str,
        *,
        scheme: str,
        path: str,
        headers: Mapping[str, str],
        server: tuple[str, int | None] | None = None,
        route: Callable[[], str | None],
        awaits_span: bool = False,
    ) -> ServerRequest | None:
        """
        Begin to serve a request now; it is current in this context until :meth:`leave`.

        Args:
            method: The HTTP method.
            scheme: ``http`` or ``https``.
            path: The URL's path, which is recorded only if ``export_url_paths`` is configured.
                The query is never recorded.
            headers: Request headers, names in lower case. Only the trace context is read.
            server: Host and port that the request was sent to.
            route: Returns the route's template, ``None`` as long as no route has been found.
                Called when the route is needed, until it returns one.
            awaits_span: Whether another instrumentation opens the request's span later.

        Returns:
            ``None`` if latspan is not configured, HTTP instrumentation is suppressed here, or the
            request is being served already: an application hands it to a mounted one.
        """
        runtime = current_runtime()
        if runtime is None or is_suppressed() or _is_served_here():
            return None
        with handle_internal_errors("the start of a served request"), ExitStack() as exit_stack:
            known: dict[str, AttributeValue] = {
                semconv.HTTP_REQUEST_METHOD: method,
                semconv.URL_SCHEME: scheme,
            }
            if runtime.export_url_paths:
                known[semconv.URL_PATH] = path
            if method not in _METHODS:
                known[semconv.HTTP_REQUEST_METHOD] = semconv.HTTP_REQUEST_METHOD_OTHER
                known[semconv.HTTP_REQUEST_METHOD_ORIGINAL] = method
                method = _ANY_METHOD
            if server is not None:
                known[semconv.SERVER_ADDRESS] = server[0]
                if server[1] is not None:
                    known[semconv.SERVER_PORT] = server[1]
            route = _once_known(route)
            other = _other_span()
            if other is None and not awaits_span:
                # A server may iterate the body on another thread, and so end a request there.
                # That request is then still current here, and must not become the parent of this
                # one.
                outside = context.Context() if is_left_over() else None
                token = context.attach(propagate.extract(headers, outside))
                exit_stack.callback(context.detach, token)
            sink = runtime.sink()
            if other is not None:
                sink = EnrichingSink(sink, other)
            elif awaits_span:
                sink = NoSink()
            scope = LocalScope(
                runtime,
                kind=Kind.REQUEST,
                name=method,
                attributes=known,
                side=Side.SERVER,
                span_kind=SpanKind.SERVER,
                sink=sink,
            )
            # The route is not known yet; calls inside the request look it up when they need it.
            exit_stack.enter_context(with_attribute_of("route", route))
            return cls(
                scope,
                exit_stack.pop_all(),
                method=method,
                route=route,
                now=runtime.clock.monotonic_ns,
            )
        return None

    @property
    def now(self) -> Callable[[], int]:
        """Clock function: returns the monotonic reading, nanoseconds."""
        return self._now

    def adopt(self, span: object) -> None:
        """
        Add to a span that another instrumentation has opened for the request.

        Args:
            span: The span; it is ignored if it is not recorded, or if the request has a span.
        """
        with handle_internal_errors("the span of a served request"):
            if isinstance(span, trace.Span) and span.is_recording():
                self._scope.adopt(EnrichingSink(self._scope.runtime.sink(), span))

    def answering(self, status: int, headers: Mapping[str, str]) -> None:
        """
        Record that the status and the headers of the response are being sent.

        Args:
            status: The HTTP status code.
            headers: Response headers, names in lower case.
        """
        self._status = status
        self.headers = headers

    def wrote(self, before_ns: int, *, begins_a_stream: bool) -> None:
        """
        Record a write of a part of the body.

        Args:
            before_ns: Start of the write, monotonic nanoseconds.
            begins_a_stream: Whether the part is not empty, and further parts follow.
        """
        after_ns = self._now()
        if begins_a_stream and self._first_ns is None:
            self._first_ns = after_ns
        if after_ns - before_ns > _HELD_UP_NS:
            written = Activity(None, Stage.SEND_STREAM.value, before_ns, after_ns)
            self._scope.add(written)

    def took_ns(self) -> list[tuple[str, int]]:
        """Return the duration of each ended stage, and the total so far, in nanoseconds."""
        with handle_internal_errors("the stages of a served request"):
            return self._scope.took_ns()
        return []

    def sent(self, error: BaseException | None = None) -> None:
        """
        End the request: the complete response was sent.

        Args:
            error: Exception that the application was handling meanwhile. Its type describes a
                failure better than the status of the response to it.
        """
        status, headers = self._status, self.headers
        outcome, error_type = Outcome.COMPLETED, None
        if status is not None:
            refused = outcome_of_status(status, headers)
            if status >= _FIRST_SERVER_ERROR or refused is Outcome.REJECTED:
                outcome, error_type = refused, str(status)
                if error is not None and refused is Outcome.ERROR:
                    error_type = error_type_of(error)
            elif self._raised is not None:
                self.failed(self._raised)
        self._end(outcome, error_type)

    def raised(self, error: BaseException) -> None:
        """
        Record that an exception left the part of the application that produces the response.

        A middleware between that part and the server may catch it and complete the response, whose
        status has been sent.
        """
        if self._status is not None:
            self._raised = error

    def disconnected(self) -> None:
        """End the request: the client disconnected before the response was complete."""
        self._end(Outcome.CLOSED_EARLY)

    def cut_short(self) -> None:
        """End the request: the application returned before the response was complete."""
        outcome = Outcome.ERROR if self._status is None else Outcome.TRUNCATED
        self._end(outcome, semconv.ERROR_TYPE_OTHER)

    def failed(self, error: BaseException) -> None:
        """End the request: the application raised."""
        self._end(outcome_of(error), error_type_of(error))

    def abandoned(self) -> None:
        """End the request: latspan is shut down or configured again while it is open."""
        self._end(Outcome.ABANDONED)

    def leave(self) -> None:
        """Restore the context in which the request began; it has no effect in any other context."""
        with handle_internal_errors("the end of a served request"):
            # False in any context other than the one in which the request began.
            if self._scope.leave():
                self._exit_stack.close()

    def _end(self, outcome: Outcome, error_type: str | None = None) -> None:
        if self._scope.finished:
            return
        with handle_internal_errors("the end of a served request"):
            route = self._route()
            attributes: dict[str, AttributeValue] = {}
            metrics: dict[str, MetricValue] = {}
            if self._status is not None:
                attributes[semconv.HTTP_RESPONSE_STATUS_CODE] = self._status
            retry_after_s = self.headers.get("retry-after", "")
            if outcome is Outcome.REJECTED and _SECONDS.fullmatch(retry_after_s):
                attributes[semconv.LATSPAN_RETRY_AFTER] = float(retry_after_s)
            if route is not None:
                attributes[semconv.HTTP_ROUTE] = route
            if self._first_ns is not None:
                waited_ns = self._first_ns - self._scope.start_ns
                metrics[TIME_TO_FIRST_CHUNK] = MetricValue(waited_ns)
            self._scope.end(
                outcome,
                error_type=error_type,
                known=Known(
                    name=None if route is None else f"{self._method} {route}",
                    attributes=attributes,
                    metrics=metrics,
                    series={} if route is None else {"route": route},
                ),
            )
            # The function refers to the server's data of the request, which refers to this object.
            self._route = _no_route
            self._raised = None


def _no_route() -> None:
    return None


def _is_served_here() -> bool:
    """
    Return whether a request that this process serves is open here, and no call of a client in it.
    """
    serving = request_around(active_scope())
    if serving is None or serving.kind is not Kind.REQUEST or serving.side is not Side.SERVER:
        return False
    # With a call in between, the application is a client, and this server is another one.
    return active_operation() is None


def _once_known(find: Callable[[], str | None]) -> Callable[[], str | None]:
    """Return a function that calls ``find`` until it returns a route, and then keeps the route."""
    found: list[str] = []

    def route() -> str | None:
        if not found:
            with handle_internal_errors("the route of a served request"):
                template = find()
                if template:
                    found.append(template)
        return found[0] if found else None

    return route


def _other_span() -> trace.Span | None:
    """Return the span that another instrumentation has opened for the same request, if any."""
    span = trace.get_current_span()
    serving = span.is_recording() and getattr(span, "kind", None) is SpanKind.SERVER
    return span if serving else None
