"""The process's global tracer provider, if latspan created it."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from latspan._live.sdk._span_export import SpanExport


class Lead(SpanProcessor):
    """
    Span processor that forwards each ended span to the export that is configured at that moment.

    A process's provider is set once and keeps its processors. One processor that forwards is
    enough, however often latspan is configured.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self.of = provider
        self.to: SpanExport | None = None
        provider.add_span_processor(self)

    def on_end(self, span: ReadableSpan) -> None:
        """Forward an ended span."""
        if self.to is not None:
            self.to.on_end(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export the spans that have ended so far."""
        return self.to is None or self.to.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Export the remaining spans; the application is shutting its provider down."""
        if self.to is not None:
            self.to.shutdown()


_lead: Lead | None = None


def route_to(spans: SpanExport | None, own: TracerProvider | None) -> None:
    """
    Route the global provider's spans through ``spans``, if latspan created that provider.

    Args:
        spans: Exports spans from now on; ``None`` if nothing does.
        own: Provider to install as the global one, unless latspan already installed one.
    """
    global _lead
    if _lead is None and own is not None:
        trace.set_tracer_provider(own)
        # If the application has set a provider before, OpenTelemetry refuses with a warning.
        if trace.get_tracer_provider() is own:
            _lead = Lead(own)
    if _lead is not None:
        _lead.to = spans


def is_latspans(provider: object) -> bool:
    """Return whether ``provider`` is the process's global one and latspan created it."""
    return _lead is not None and provider is _lead.of
