"""
The SDK's own tracer, whose parts save most of the time that child spans take.

Only the exact class of the SDK is used in this way, and only if it has all the attributes below. A
subclass may behave in any way, and so may a version of the SDK with other attributes: their spans
are started and ended through the API.
"""

from __future__ import annotations

from typing import Final, TypeGuard

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanLimits, Tracer
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

__all__ = ["is_known", "limits_of", "scope_of"]

_LIMITS: Final = "_span_limits"
_SCOPE: Final = "_instrumentation_scope"
_USED: Final = ("sampler", "resource", "span_processor", "id_generator", _LIMITS, _SCOPE)
"""Attributes of the SDK's tracer that latspan uses; two of them are private."""


def is_known(tracer: trace.Tracer) -> TypeGuard[Tracer]:
    """Return whether a tracer is the SDK's own, with the attributes that latspan uses."""
    return type(tracer) is Tracer and all(map(tracer.__dict__.__contains__, _USED))


def limits_of(tracer: Tracer) -> SpanLimits:
    """Return the limits of the spans of a known tracer."""
    return getattr(tracer, _LIMITS)


def scope_of(tracer: Tracer) -> InstrumentationScope:
    """Return the instrumentation scope of the spans of a known tracer."""
    return getattr(tracer, _SCOPE)
