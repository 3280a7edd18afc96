"""A request that this process serves: its span, its timeline, and what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

from opentelemetry import context, propagate, trace
from opentelemetry.trace import SpanKind

from latspan import _runtime, semconv
from latspan._instrument._hooks import is_suppressed
from latspan._instrument._outcomes import error_type_of, outcome_of, outcome_of_status
from latspan._metrics import MetricValue
from latspan._operations import Known, LiveWork, is_left_over, with_attribute_of
from latspan._runtime import Runtime, handle_internal_errors
from latspan._segments import Kind, Outcome, Side, Stage
from latspan._spans import AttributeValue, EnrichingSink
from latspan._timeline import Interval
from latspan._units import NS_PER_MS

__all__ = ["ServerRequest"]

_FIRST_SERVER_ERROR: Final = 500
_METHODS: Final = frozenset(
    ("GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE", "QUERY")
)
_ANY_METHOD: Final = "HTTP"
"""In the name of a span: a client may send any word, and names are to be few."""
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_HELD_UP_NS: Final = NS_PER_MS
"""A write that took longer was held up: by the network, or by a client that does not read."""


class ServerRequest:
    """
    One request that this process serves, until its answer has been sent or was left.

    Args:
        work: The unit of work that it is.
        around: Leaves what is current around that.
        method: The HTTP method.
        route: Returns the route's template, once it is known.
        now: The clock's monotonic reading.
    """

    __slots__ = ("_around", "_first_ns", "_method", "_now", "_route", "_status", "_work", "headers")

    def __init__(
        self,
        work: LiveWork,
        around: ExitStack,
        *,
        method: str,
        route: Callable[[], str | None],
        now: Callable[[], int],
    ) -> None:
        self._work = work
        self._around = around
        self._method = method
        self._route = route
        self._now = now
        self._status: int | None = None
        self._first_ns: int | None = None
        self.headers: Mapping[str, str] = {}
        """Of the response, names in lower case."""

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
    ) -> ServerRequest | None:
        """
        Begin to serve a request, now; it is current in this context until :meth:`leave`.

        Args:
            method: The HTTP method.
            scheme: ``http`` or ``https``.
            path: The URL's path. The query is not recorded.
            headers: Of the request, names in lower case. Only trace context is read of them.
            server: Host and port that it was sent to.
            route: Returns the route's template, ``None`` as long as no route has been found; asked
                when somebody needs it, until it knows.

        Returns:
            ``None`` when latspan is not configured or HTTP instrumentation is suppressed here.
        """
        runtime = _runtime.current()
        if runtime is None or is_suppressed():
            return None
        with handle_internal_errors("the start of a served request"), ExitStack() as around:
            known: dict[str, AttributeValue] = {
                semconv.HTTP_REQUEST_METHOD: method,
                semconv.URL_PATH: path,
                semconv.URL_SCHEME: scheme,
            }
            if method not in _METHODS:
                known[semconv.HTTP_REQUEST_METHOD] = semconv.HTTP_REQUEST_METHOD_OTHER
                known[semconv.HTTP_REQUEST_METHOD_ORIGINAL] = method
                method = _ANY_METHOD
            if server is not None:
                known[semconv.SERVER_ADDRESS] = server[0]
                if server[1] is not None:
                    known[semconv.SERVER_PORT] = server[1]
            route = _once_known(route)
            beside = _span_beside()
            if beside is None:
                # A server may take a body, and so end a request, in another thread than this.
                outside = context.Context() if is_left_over() else None
                token = context.attach(propagate.extract(headers, outside))
                around.callback(context.detach, token)
            work = _work(runtime, method, known, beside)
            # For what is called inside: now nobody knows it yet.
            around.enter_context(with_attribute_of("route", route))
            return cls(
                work,
                around.pop_all(),
                method=method,
                route=route,
                now=runtime.clock.monotonic_ns,
            )
        return None

    @property
    def now(self) -> Callable[[], int]:
        """The clock's monotonic reading."""
        return self._now

    def answering(self, status: int, headers: Mapping[str, str]) -> None:
        """
        Hear that the head of the answer is being sent.

        Args:
            status: The HTTP status code.
            headers: Names in lower case.
        """
        self._status = status
        self.headers = headers

    def wrote(self, before_ns: int, *, begins_a_stream: bool) -> None:
        """
        Stamp a write of a part of the body.

        Args:
            before_ns: When it was begun, monotonic nanoseconds.
            begins_a_stream: Whether it holds anything, and others are to come.
        """
        after_ns = self._now()
        if begins_a_stream and self._first_ns is None:
            self._first_ns = after_ns
        if after_ns - before_ns > _HELD_UP_NS:
            written = Interval(Stage.SEND_STREAM.value, before_ns, after_ns, own=True)
            self._work.holds_stage(written)

    def took_ns(self) -> list[tuple[str, int]]:
        """Return how long each stage took that is over, and all of it so far, in nanoseconds."""
        with handle_internal_errors("the stages of a served request"):
            return self._work.took_ns()
        return []

    def sent(self) -> None:
        """End it: the whole answer was handed over."""
        status, headers = self._status, self.headers
        outcome, error_type = Outcome.COMPLETED, None
        if status is not None:
            refused = outcome_of_status(status, headers)
            if status >= _FIRST_SERVER_ERROR or refused is Outcome.REJECTED:
                outcome, error_type = refused, str(status)
        self._finish(outcome, error_type)

    def disconnected(self) -> None:
        """End it: the client went away before the answer was whole."""
        self._finish(Outcome.CLOSED_EARLY)

    def cut_short(self) -> None:
        """End it: the application returned before the answer was whole."""
        outcome = Outcome.ERROR if self._status is None else Outcome.TRUNCATED
        self._finish(outcome, semconv.ERROR_TYPE_OTHER)

    def failed(self, error: BaseException) -> None:
        """End it: the application raised."""
        self._finish(outcome_of(error), error_type_of(error))

    def leave(self) -> None:
        """Be current no longer; in the context in which it began."""
        with handle_internal_errors("the end of a served request"):
            # In another context than that in which it began there is nothing to leave.
            if self._work.leave():
                self._around.close()

    def _finish(self, outcome: Outcome, error_type: str | None = None) -> None:
        if self._work.finished:
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
                waited_ns = self._first_ns - self._work.start_ns
                metrics["time_to_first_chunk"] = MetricValue(waited_ns)
            self._work.finish(
                outcome,
                error_type=error_type,
                known=Known(
                    name=None if route is None else f"{self._method} {route}",
                    attributes=attributes,
                    metrics=metrics,
                    series={} if route is None else {"route": route},
                ),
            )


def _once_known(find: Callable[[], str | None]) -> Callable[[], str | None]:
    """Return what asks ``find`` until it has an answer."""
    found: list[str] = []

    def route() -> str | None:
        if not found:
            with handle_internal_errors("the route of a served request"):
                template = find()
                if template:
                    found.append(template)
        return found[0] if found else None

    return route


def _span_beside() -> trace.Span | None:
    """Return the span that another instrumentation has opened for the same request, if any."""
    span = trace.get_current_span()
    serving = span.is_recording() and getattr(span, "kind", None) is SpanKind.SERVER
    return span if serving else None


def _work(
    runtime: Runtime,
    method: str,
    attributes: Mapping[str, AttributeValue],
    beside: trace.Span | None,
) -> LiveWork:
    sink = runtime.sink()
    return LiveWork(
        runtime,
        kind=Kind.REQUEST,
        name=method,
        attributes=attributes,
        side=Side.SERVER,
        span_kind=SpanKind.SERVER,
        sink=sink if beside is None else EnrichingSink(sink, beside),
    )
