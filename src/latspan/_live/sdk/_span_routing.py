"""Routing of spans: to the application's provider if it has one, else to latspan's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from opentelemetry import context, trace
from opentelemetry.trace import ProxyTracerProvider, TracerProvider

from latspan._base.log import warn_once
from latspan._live.operations._enclosing import active_scope
from latspan._live.otel.context_keys import current_span
from latspan._live.otel.providers import has_span_processors, is_unset
from latspan._live.otel.spans import ApiSink, NoSink, SpanSink
from latspan._live.process.runtime import drain_before_flush
from latspan._version import __version__
from latspan.semconv import SCHEMA_URL

_DROPPED: Final = (
    "OpenTelemetry spans of the application are dropped, because no tracer provider is set;"
    " hint: latspan.configure(set_global_provider=True) exports them with latspan's spans"
)


class SpanRouter:
    """
    Selects, for each request, the sink of its spans.

    An application may set its global provider before or after latspan is configured; the provider
    is used from then on. A provider of the SDK without a span processor does not count, because it
    drops its spans. ``OTEL_PYTHON_TRACER_PROVIDER`` creates a provider on the first call that
    requests the global one.

    If the application starts spans of its own while it has no provider, OpenTelemetry drops them
    without a message. The router logs this once. It does not patch OpenTelemetry: it looks at the
    span that is current when a request begins. So it does not notice a span that is never made
    current, or inside which no call, request or stage of latspan begins.

    Args:
        private: Returns the sink of spans while the application has no provider.
        chosen: Configured provider, used instead of the global one.
        begin: Called for each request; starts the threads that a process starts with its first
            request.
        warning: Warning to log once if the application's provider is used.
    """

    __slots__ = ("_api", "_begin", "_chosen", "_private", "_provider", "_warning", "_watches")

    def __init__(
        self,
        private: Callable[[], SpanSink],
        chosen: TracerProvider | None = None,
        *,
        begin: Callable[[], None] | None = None,
        warning: str | None = None,
    ) -> None:
        self._begin = begin
        self._warning = warning
        self._private = private
        self._watches = True
        self._chosen = chosen
        self._provider: TracerProvider | None = None
        self._api: ApiSink | None = None

    def provider(self) -> TracerProvider | None:
        """Return the application's provider; ``None`` while it has none."""
        provider = self._chosen or trace.get_tracer_provider()
        return None if is_unset(provider) else provider

    @property
    def uses_application(self) -> bool:
        """Whether spans use the application's provider now."""
        return self._of_application(self._chosen or trace.get_tracer_provider())

    def _of_application(self, provider: TracerProvider) -> bool:
        if is_unset(provider):
            return False
        return provider is self._chosen or has_span_processors(provider)

    def __call__(self) -> SpanSink:
        """Return the sink to use now."""
        if self._begin is not None:
            self._begin()
        provider = self._chosen or trace.get_tracer_provider()
        if self._api is None or provider is not self._provider:
            if not self._of_application(provider):
                sink = self._private()
                if self._watches and type(provider) is ProxyTracerProvider and _drops_a_span():
                    self._watches = False
                    # If no spans are exported, the application's are not missed either.
                    if not isinstance(sink, NoSink):
                        warn_once(_DROPPED)
                return sink
            from latspan._live.otel.export import application_sink

            if self._warning is not None:
                warn_once(self._warning)
            tracer = provider.get_tracer("latspan", __version__, schema_url=SCHEMA_URL)
            sink = application_sink(tracer, drain_before_flush)
            self._provider, self._api = provider, sink
        return self._api


def _drops_a_span() -> bool:
    """
    Return whether code of the application has made a span current that no provider records.

    Without a provider, OpenTelemetry's tracer starts no span. It makes ``INVALID_SPAN`` current, or
    inside one of latspan's spans a copy that has the same ids and records nothing. A span with the
    ids of another process is not recorded here either, but it is not dropped: it was received.
    """
    span = current_span(context.get_current())
    if span is None:
        return False
    if span is trace.INVALID_SPAN:
        return True
    if type(span) is not trace.NonRecordingSpan:
        return False
    own: object = getattr(active_scope(), "span", None)
    return (
        isinstance(own, trace.Span)
        and own is not span
        and own.get_span_context().span_id == span.get_span_context().span_id
    )
