"""The endpoints that a model answers: what their arguments say, and how to read the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from latspan import semconv
from latspan.instrument import Call, is_on, open_call, server_of
from latspan.wire import Dialect, choices_asked
from latspan.wire.openai_chat import OPENAI_CHAT
from latspan.wire.openai_completions import OPENAI_COMPLETIONS
from latspan.wire.openai_embeddings import OPENAI_EMBEDDINGS
from latspan.wire.openai_responses import OPENAI_RESPONSES
from latspan_openai._client import provider_of
from latspan_openai._usage import with_usage

__all__ = ["CHAT", "COMPLETIONS", "EMBEDDINGS", "RESPONSES", "Endpoint"]

_PLAIN: Final = (str, int, float)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """
    One endpoint.

    Args:
        dialect: How to read its answers.
        said_by: Arguments that are attributes of the span, with the attributes' names.
        attributes: What every call of it is.
        asking: What is asked where ``include_usage`` is configured; just the arguments given,
            if ``None``.
    """

    dialect: Dialect
    said_by: Mapping[str, str]
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    asking: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def open(self, instance: Any, kwargs: Mapping[str, Any]) -> Call | None:
        """
        Open a call of it.

        Args:
            instance: The resource whose method is called.
            kwargs: The arguments of the call.
        """
        client: Any = getattr(instance, "_client", None)
        model = kwargs.get("model")
        sent = _sent(kwargs)
        choices = sent.get("n")
        attributes: dict[str, Any] = {**self.attributes}
        for name, value in kwargs.items():
            key = self.said_by.get(name)
            # What was not given is a sentinel of the SDK's, or absent.
            if key is not None and isinstance(value, _PLAIN):
                attributes[key] = value
        if isinstance(choices, int) and choices != 1:
            attributes[semconv.GEN_AI_REQUEST_CHOICE_COUNT] = choices
        return open_call(
            operation=self.dialect.operation,
            provider=provider_of(client.__class__),
            model=model if isinstance(model, str) else None,
            dialect=self.dialect,
            server=server_of(client),
            client=client,
            streamed=kwargs.get("stream") is True,
            choices=choices_asked(sent),
            attributes=attributes,
            request=kwargs,
            # It patches what the methods call, so its span is opened inside.
            awaits_span=is_on("openinference.instrumentation.openai", "OpenAIInstrumentor"),
        )


def _sent(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call with what ``extra_body`` puts in their place."""
    extra: object = kwargs.get("extra_body")
    return {**kwargs, **cast("Mapping[str, Any]", extra)} if isinstance(extra, Mapping) else kwargs


_SAMPLING: Final = {
    "temperature": semconv.GEN_AI_REQUEST_TEMPERATURE,
    "top_p": semconv.GEN_AI_REQUEST_TOP_P,
    "service_tier": semconv.OPENAI_REQUEST_SERVICE_TIER,
}

CHAT: Final = Endpoint(
    OPENAI_CHAT,
    {
        **_SAMPLING,
        "max_tokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
        "max_completion_tokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
        "seed": semconv.GEN_AI_REQUEST_SEED,
        "frequency_penalty": semconv.GEN_AI_REQUEST_FREQUENCY_PENALTY,
        "presence_penalty": semconv.GEN_AI_REQUEST_PRESENCE_PENALTY,
        "reasoning_effort": semconv.GEN_AI_REQUEST_REASONING_LEVEL,
    },
    attributes={semconv.OPENAI_API_TYPE: "chat_completions"},
    asking=with_usage,
)

RESPONSES: Final = Endpoint(
    OPENAI_RESPONSES,
    {
        **_SAMPLING,
        "max_output_tokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
        "previous_response_id": semconv.GEN_AI_REQUEST_PREVIOUS_RESPONSE_ID,
        "conversation": semconv.GEN_AI_CONVERSATION_ID,
    },
    attributes={semconv.OPENAI_API_TYPE: "responses"},
)

COMPLETIONS: Final = Endpoint(
    OPENAI_COMPLETIONS,
    {
        "temperature": semconv.GEN_AI_REQUEST_TEMPERATURE,
        "top_p": semconv.GEN_AI_REQUEST_TOP_P,
        "max_tokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
        "seed": semconv.GEN_AI_REQUEST_SEED,
        "frequency_penalty": semconv.GEN_AI_REQUEST_FREQUENCY_PENALTY,
        "presence_penalty": semconv.GEN_AI_REQUEST_PRESENCE_PENALTY,
    },
    asking=with_usage,
)

EMBEDDINGS: Final = Endpoint(
    OPENAI_EMBEDDINGS, {"dimensions": semconv.GEN_AI_EMBEDDINGS_DIMENSION_COUNT}
)
