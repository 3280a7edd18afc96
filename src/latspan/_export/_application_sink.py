"""
Span sink for an application's tracer provider, whether it is the SDK's or another.

The SDK's own tracer is used through some of its private attributes (``latspan._otel.tracers``),
which saves most of the time that child spans take on the caller's thread. Every other tracer is
used through the OpenTelemetry API alone.
"""

from __future__ import annotations

from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.trace import Tracer

from latspan import _runtime
from latspan._export._unstarted_children import UnstartedChildren
from latspan._otel.samplers import looks_at_the_trace_alone
from latspan._otel.tracers import Processors, is_known
from latspan._spans import ApiSink

__all__ = ["application_sink"]

_LONGEST_WAIT_S: Final = 5.0
"""How long a flush by the application waits for requests that have ended."""


def application_sink(tracer: trace.Tracer) -> ApiSink:
    """
    Return the sink that opens spans with the tracer.

    Args:
        tracer: A tracer of an application's provider, which may be of any type.
    """
    return _SdkSink(tracer) if is_known(tracer) else ApiSink(tracer)


def _wait_for_worker() -> None:
    with _runtime.handle_internal_errors("a flush by the application"):
        runtime = _runtime.current()
        if runtime is not None:
            runtime.drain(_LONGEST_WAIT_S)


class _SdkSink(ApiSink):
    """
    Sink for the SDK's own provider; it uses private attributes of the SDK because that is faster.

    Args:
        tracer: A tracer of that provider.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._processors = Processors(tracer, _wait_for_worker)
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
