"""The process's tracer provider, where latspan made it."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from latspan._sdk._span_export import SpanExport

__all__ = ["is_latspans", "lead_to"]


class _Lead(SpanProcessor):
    """
    Hands each span that ends to the export that is configured at that moment.

    A process's provider is set once and keeps its processors for good. One that leads on is
    enough, however often latspan is configured.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self.of = provider
        self.to: SpanExport | None = None
        provider.add_span_processor(self)

    def on_end(self, span: ReadableSpan) -> None:
        """Hand on an ended span."""
        if self.to is not None:
            self.to.on_end(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what has ended so far."""
        return self.to is None or self.to.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Send what is left; the application shuts its provider down."""
        if self.to is not None:
            self.to.shutdown()


_lead: _Lead | None = None


def lead_to(spans: SpanExport | None, own: TracerProvider | None) -> None:
    """
    Have the spans of the process's provider sent through ``spans``, if the provider is latspan's.

    Args:
        spans: What sends spans from now on, ``None`` if nothing does.
        own: A provider that is to be the process's, unless one of latspan's is already.
    """
    global _lead
    if _lead is None and own is not None:
        trace.set_tracer_provider(own)
        # OpenTelemetry refuses, with a warning, where the application has set one before.
        if trace.get_tracer_provider() is own:
            _lead = _Lead(own)
    if _lead is not None:
        _lead.to = spans


def is_latspans(provider: object) -> bool:
    """Return whether a provider is the process's and was made by latspan."""
    return _lead is not None and provider is _lead.of
