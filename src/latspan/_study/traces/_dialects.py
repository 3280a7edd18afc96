"""
Dialects of inference spans: what each instrumentation writes, under the names of the conventions.

A span of OpenInference, OpenLLMetry or a model server has the facts of an inference span under
other names, and the arrival of chunks as events. Prompts and responses are never read.

Source: the GenAI conventions of OpenTelemetry; OpenInference, ``spec/semantic_conventions.md``, and
``openinference-instrumentation-openai`` 0.1.66 (event "First Token Stream Event"); OpenLLMetry,
``opentelemetry-instrumentation-openai`` 0.62 (one event per chunk); vLLM and SGLang:
:mod:`latspan._model.evidence.gen_ai_latency`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S


class Dialect(StrEnum):
    """Instrumentation that wrote a span."""

    LATSPAN = "latspan"
    GEN_AI = "gen_ai"
    OPENINFERENCE = "openinference"
    OPENLLMETRY = "openllmetry"
    MODEL_SERVER = "model_server"


INSTRUMENTATIONS: Final = {
    Dialect.GEN_AI: "the GenAI conventions",
    Dialect.OPENINFERENCE: "OpenInference",
    Dialect.OPENLLMETRY: "OpenLLMetry",
    Dialect.MODEL_SERVER: "model servers",
}
"""Names in sentences of the dialects that are not latspan's."""


class Event(NamedTuple):
    """
    Event of a span.

    Args:
        name: Its name.
        at_ns: Its Unix time, in nanoseconds.
        attributes: Its attributes.
    """

    name: str
    at_ns: int
    attributes: Mapping[str, Any]


class Inference(NamedTuple):
    """
    What a span states about a call of a model.

    Args:
        dialect: Instrumentation that wrote it.
        attributes: Attributes under the names of the conventions.
        chunks_ns: Unix times at which chunks arrived, in nanoseconds, if each has an event.
    """

    dialect: Dialect
    attributes: Mapping[str, Any]
    chunks_ns: tuple[int, ...] = ()


_KIND: Final = "openinference.span.kind"
_OPERATIONS: Final = {
    "LLM": "chat",
    "EMBEDDING": "embeddings",
    "chat": "chat",
    "completion": "text_completion",
    "embedding": "embeddings",
}
"""Operations of the conventions, by OpenInference's kind or by OpenLLMetry's request type."""

_INFERENCES: Final = frozenset(
    {"chat", "text_completion", "generate_content", "embeddings", "completion"}
)
"""Operations of the conventions that are one call of a model."""

_OPENLLMETRY: Final = frozenset(
    {
        "llm.request.type",
        "llm.is_streaming",
        "llm.usage.total_tokens",
        "gen_ai.is_streaming",
        "gen_ai.usage.total_tokens",
    }
)
"""Attributes that only OpenLLMetry writes; the last two since 2026."""

_FIRST_CHUNK: Final = "First Token Stream Event"
_CHUNKS: Final = frozenset({"gen_ai.content.completion.chunk", "llm.content.completion.chunk"})

_NAMES: Final[Mapping[str, Sequence[str]]] = {
    semconv.GEN_AI_REQUEST_MODEL: ("llm.model_name", "embedding.model_name", "llm.request.model"),
    semconv.GEN_AI_PROVIDER_NAME: ("gen_ai.system", "llm.provider", "llm.system"),
    semconv.GEN_AI_USAGE_INPUT_TOKENS: (
        "llm.token_count.prompt",
        "gen_ai.usage.prompt_tokens",
    ),
    semconv.GEN_AI_USAGE_OUTPUT_TOKENS: (
        "llm.token_count.completion",
        "gen_ai.usage.completion_tokens",
    ),
    semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: (
        "llm.token_count.prompt_details.cache_read",
        "gen_ai.usage.cache_read_input_tokens",
    ),
    semconv.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS: (
        "llm.token_count.prompt_details.cache_write",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
    ),
    semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: (
        "llm.token_count.completion_details.reasoning",
        "gen_ai.usage.reasoning_tokens",
    ),
    semconv.GEN_AI_REQUEST_STREAM: ("gen_ai.is_streaming", "llm.is_streaming"),
    semconv.GEN_AI_RESPONSE_ID: ("gen_ai.request.id",),
}
"""Other names of each attribute, in the order in which they are looked for."""


def is_arrival(event: Event) -> bool:
    """Return whether an event is the arrival of a chunk."""
    return event.name in _CHUNKS or event.name == _FIRST_CHUNK


def inference_of(
    attributes: Mapping[str, Any], events: Sequence[Event], start_ns: int
) -> Inference | None:
    """
    Return what a span of another instrumentation states; ``None`` if it is not a call of a model.

    Args:
        attributes: Attributes of the span.
        events: Events of the span.
        start_ns: Unix time of its start, in nanoseconds.
    """
    dialect = _dialect_of(attributes)
    if dialect is None:
        return None
    named = dict(attributes)
    for name, others in _NAMES.items():
        known = next((attributes[other] for other in others if other in attributes), None)
        if known is not None:
            named.setdefault(name, known)
    operation = str(attributes.get(_KIND, attributes.get("llm.request.type", "chat")))
    named.setdefault(semconv.GEN_AI_OPERATION_NAME, _OPERATIONS.get(operation, operation))
    chunks = tuple(sorted(event.at_ns for event in events if event.name in _CHUNKS))
    first = [event.at_ns for event in events if event.name == _FIRST_CHUNK] or chunks[:1]
    if first and first[0] >= start_ns:
        seconds = (first[0] - start_ns) / NS_PER_S
        named.setdefault(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, seconds)
    raised = [event.attributes.get("exception.type") for event in events]
    if any(raised):
        named.setdefault(semconv.ERROR_TYPE, next(filter(None, raised)))
    return Inference(dialect, named, chunks)


def _dialect_of(attributes: Mapping[str, Any]) -> Dialect | None:
    if any(name.startswith(semconv.GEN_AI_LATENCY_PREFIX) for name in attributes):
        return Dialect.MODEL_SERVER
    if _KIND in attributes:
        is_call = attributes[_KIND] in ("LLM", "EMBEDDING")
        return Dialect.OPENINFERENCE if is_call else None
    operation = attributes.get(semconv.GEN_AI_OPERATION_NAME)
    if operation is not None and str(operation) not in _INFERENCES:
        return None
    if _OPENLLMETRY & attributes.keys():
        return Dialect.OPENLLMETRY
    return None if operation is None else Dialect.GEN_AI
