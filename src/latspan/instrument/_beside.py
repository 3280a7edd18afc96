"""Spans that other instrumentations open for the same call of a model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final, cast

from opentelemetry import trace
from opentelemetry.context import Context

from latspan import semconv
from latspan._spans import current_span

__all__ = ["counted_beside", "is_on", "llm_span_around"]

_OFFICIAL_INFERENCE_KEY: Final = "opentelemetry.genai.client.inference.context"
"""Where `opentelemetry-util-genai` 1.3 holds the inference that is open in a context."""

_LLM: Final[Mapping[str, frozenset[str]]] = {
    semconv.GEN_AI_OPERATION_NAME: frozenset(
        {"chat", "text_completion", "generate_content", "embeddings"}
    ),
    # OpenInference and its relatives.
    "openinference.span.kind": frozenset({"LLM", "EMBEDDING"}),
    # OpenLLMetry, which says the operation only later.
    "llm.request.type": frozenset({"chat", "completion", "embedding"}),
}
"""What says of a span that it is one call of a model: any of these attributes."""

_TAKEN: Final = "_latspan_enriched"


def is_on(module: str, instrumentor: str) -> bool:
    """
    Return whether an instrumentation of OpenTelemetry's own is switched on.

    Args:
        module: Where it lives; it is not imported for this.
        instrumentor: The name of its instrumentor class, of which there is one instance.
    """
    cls = getattr(sys.modules.get(module), instrumentor, None)
    return cls is not None and cls().is_instrumented_by_opentelemetry is True


def counted_beside(span: trace.Span | None, around: Context) -> bool:
    """
    Return whether another instrumentation emits the GenAI conventions' metrics for this call.

    Args:
        span: What :func:`llm_span_around` returned.
        around: The context that the call begins in.
    """
    if around.get(_OFFICIAL_INFERENCE_KEY) is not None:
        return True
    if span is None:
        return False
    scope = getattr(span, "instrumentation_scope", None)
    return str(getattr(scope, "name", "")).startswith("opentelemetry.")


def llm_span_around(around: Context) -> trace.Span | None:
    """
    Return the span that another instrumentation has just opened for the call that begins here.

    A span is taken once: of two calls inside one such span the second is a call of its own.

    Args:
        around: The context that the call begins in.
    """
    span = current_span(around)
    if span is None or not span.is_recording():
        return None
    attributes = cast("Mapping[str, object] | None", getattr(span, "attributes", None))
    if not attributes or semconv.LATSPAN_KIND in attributes or hasattr(span, _TAKEN):
        return None
    if not any(attributes.get(key) in values for key, values in _LLM.items()):
        return None
    try:
        setattr(span, _TAKEN, True)
    except AttributeError:
        return None
    return span
