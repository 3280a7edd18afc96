"""
Span sink for an application's tracer provider, whether it is the SDK's or another.

The SDK's own tracer is used through some of its private attributes
(``latspan._live.otel.tracers``), which saves most of the time that child spans take on the caller's
thread. Every other tracer is used through the OpenTelemetry API alone.
"""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import trace
from opentelemetry.sdk.trace import Tracer

from latspan._live.otel.export._unstarted_children import UnstartedChildren
from latspan._live.otel.samplers import looks_at_the_trace_alone
from latspan._live.otel.spans import ApiSink
from latspan._live.otel.tracers import Processors, is_known


def application_sink(tracer: trace.Tracer, before_flush: Callable[[], None]) -> ApiSink:
    """
    Return the sink that opens spans with the tracer.

    Args:
        tracer: A tracer of an application's provider, which may be of any type.
        before_flush: Called before a processor of the SDK's provider flushes or shuts down; it does
            not raise.
    """
    return _SdkSink(tracer, before_flush) if is_known(tracer) else ApiSink(tracer)


class _SdkSink(ApiSink):
    """
    Sink for the SDK's own provider; it uses private attributes of the SDK because that is faster.

    Args:
        tracer: A tracer of that provider.
        before_flush: Called before a processor flushes or shuts down.
    """

    def __init__(self, tracer: Tracer, before_flush: Callable[[], None]) -> None:
        self._processors = Processors(tracer, before_flush)
        super().__init__(tracer, UnstartedChildren(tracer, self._processors))
        # An unknown sampler may depend on the thread that calls it.
        self._sampler_is_known = looks_at_the_trace_alone(tracer.sampler)

    @property
    def inline(self) -> bool:
        """
        Whether spans must end with their request: a sampler or processor could detect a later end.
        """
        # Call `gather` first, whatever the sampler: it makes the processors wait for latspan
        # before they flush.
        return not (self._processors.gather() and self._sampler_is_known)
