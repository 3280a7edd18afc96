"""
Span sink for an application's tracer provider, whether it is the SDK's or another.

The SDK's own tracer is used through some of its private attributes, which saves most of the time
that child spans take on the caller's thread. This applies only to the exact class of the SDK, and
only if all of these attributes exist. A subclass, another SDK version with other attributes, or a
provider of another library is used through the OpenTelemetry API alone.
"""

from __future__ import annotations

from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.trace import Tracer

from latspan._export._processors import Processors
from latspan._export._samplers import looks_at_the_trace_alone
from latspan._export._unstarted_children import UnstartedChildren
from latspan._spans import ApiSink

__all__ = ["application_sink"]

_KNOWN: Final = (
    "sampler",
    "resource",
    "span_processor",
    "id_generator",
    "_span_limits",
    "_instrumentation_scope",
)
"""Attributes of the SDK's tracer that latspan uses; some of them are private."""


def application_sink(tracer: trace.Tracer) -> ApiSink:
    """
    Return the sink that opens spans with the tracer.

    Args:
        tracer: A tracer of an application's provider, which may be of any type.
    """
    # A subclass may behave in any way, and so may a version of the SDK with other attributes.
    if type(tracer) is not Tracer or not all(map(tracer.__dict__.__contains__, _KNOWN)):
        return ApiSink(tracer)
    return _SdkSink(tracer)


class _SdkSink(ApiSink):
    """
    Sink for the SDK's own provider; it uses private attributes of the SDK because that is faster.

    Args:
        tracer: A tracer of that provider.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._processors = Processors(tracer)
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
