"""Spans through an application's provider, the SDK's or another."""

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
"""The parts of the SDK's tracer that are used here; some are its own affair."""


def application_sink(tracer: trace.Tracer) -> ApiSink:
    """
    Return where spans of that tracer are opened.

    Args:
        tracer: Of an application's provider, whatever that is.
    """
    # A subclass may do anything, and an SDK whose inside has changed is not one that we know.
    if type(tracer) is not Tracer or not all(map(tracer.__dict__.__contains__, _KNOWN)):
        return ApiSink(tracer)
    return _SdkSink(tracer)


class _SdkSink(ApiSink):
    """
    Spans of the SDK's own provider, for whose inside there are faster ways.

    Args:
        tracer: Of that provider.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._processors = Processors(tracer)
        super().__init__(tracer, UnstartedChildren(tracer, self._processors))
        # Another may look at the thread that it is asked on.
        self._sampler_is_known = looks_at_the_trace_alone(tracer.sampler)

    @property
    def inline(self) -> bool:
        """Whether somebody could tell that a span was ended later than its request."""
        # First `gather`: with any sampler the processors wait for latspan when they flush.
        return not (self._processors.gather() and self._sampler_is_known)
