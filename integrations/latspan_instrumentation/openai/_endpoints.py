"""The endpoints served by a model: the attributes of a request and the format of a response."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from latspan import semconv
from latspan.integrations import Call, is_instrumented, open_call
from latspan.integrations.formats import (
    OPENAI_CHAT,
    OPENAI_COMPLETIONS,
    OPENAI_EMBEDDINGS,
    OPENAI_RESPONSES,
    OPENAI_RESPONSES_FETCHED,
    ApiFormat,
)
from latspan_instrumentation.openai._arguments import (
    Reading,
    as_it_is,
    compacted,
    cursor,
    each_text,
    effort,
    format_of_text,
    identity,
    of_format,
    request_of,
    tier,
    with_usage,
)
from latspan_instrumentation.stainless._clients import server_of


@functools.cache
def _provider_of(client_class: type) -> str:
    """Return the semantic conventions' name of the provider for a class of clients."""
    azure = any("Azure" in cls.__name__ for cls in client_class.__mro__)
    return "azure.ai.openai" if azure else "openai"


@dataclass(frozen=True, slots=True, eq=False)
class ApiEndpoint:
    """
    One endpoint of the API.

    Args:
        api_format: The format of its responses.
        argument_attributes: Triples of an argument's name, the attribute of the span that it sets,
            and the function that reads its value; if two set the same attribute, the later wins.
        attributes: The attributes of every call of the endpoint.
        rewrite_request: Returns the arguments to send if ``request_stream_usage`` is configured. If
            ``None``, the caller's arguments are sent.
    """

    api_format: ApiFormat
    argument_attributes: Sequence[tuple[str, str, Reading]]
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    rewrite_request: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    _arguments: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        arguments = frozenset(argument for argument, _, _ in self.argument_attributes)
        object.__setattr__(self, "_arguments", arguments)

    def open(self, instance: Any, kwargs: Mapping[str, Any]) -> Call | None:
        """
        Open a call of the endpoint for a method of a resource.

        Args:
            instance: The resource whose method is called.
            kwargs: The arguments of the call.
        """
        return self.open_for(getattr(instance, "_client", None), kwargs)

    def open_for(self, client: Any, kwargs: Mapping[str, Any]) -> Call | None:
        """
        Open a call of the endpoint for a client.

        Args:
            client: The client that sends it.
            kwargs: The arguments of the call, or the body that is sent.
        """
        request = request_of(kwargs) if "extra_body" in kwargs else kwargs
        model = request.get("model")
        choices = request.get("n")
        attributes: dict[str, Any] = {**self.attributes}
        # Fast path: most calls pass none of these arguments.
        for argument, name, read in (
            () if self._arguments.isdisjoint(request) else self.argument_attributes
        ):
            if argument in request and (value := read(request[argument])) is not None:
                attributes[name] = value
        if isinstance(choices, int) and choices != 1:
            attributes[semconv.GEN_AI_REQUEST_CHOICE_COUNT] = choices
        return open_call(
            operation=self.api_format.operation,
            provider=_provider_of(client.__class__),
            model=model if isinstance(model, str) else None,
            api_format=self.api_format,
            server=server_of(client),
            client=client,
            streamed=bool(kwargs.get("stream")),
            choices=1
            if choices is None and "prompt" not in request
            else self.api_format.choices_requested(request),
            attributes=attributes,
            request=request,
            # OpenInference patches what the SDK's methods call, so its span is opened inside
            # this call.
            awaits_span=is_instrumented(
                "openinference.instrumentation.openai", "OpenAIInstrumentor"
            ),
        )


_SAMPLING: Final = (
    ("temperature", semconv.GEN_AI_REQUEST_TEMPERATURE, as_it_is),
    ("top_p", semconv.GEN_AI_REQUEST_TOP_P, as_it_is),
    ("service_tier", semconv.OPENAI_REQUEST_SERVICE_TIER, tier),
)

_OF_COMPLETIONS: Final = (
    *_SAMPLING,
    ("max_tokens", semconv.GEN_AI_REQUEST_MAX_TOKENS, as_it_is),
    ("seed", semconv.GEN_AI_REQUEST_SEED, as_it_is),
    ("frequency_penalty", semconv.GEN_AI_REQUEST_FREQUENCY_PENALTY, as_it_is),
    ("presence_penalty", semconv.GEN_AI_REQUEST_PRESENCE_PENALTY, as_it_is),
    ("stop", semconv.GEN_AI_REQUEST_STOP_SEQUENCES, each_text),
)

CHAT: Final = ApiEndpoint(
    OPENAI_CHAT,
    (
        *_OF_COMPLETIONS,
        ("max_completion_tokens", semconv.GEN_AI_REQUEST_MAX_TOKENS, as_it_is),
        ("reasoning_effort", semconv.GEN_AI_REQUEST_REASONING_LEVEL, as_it_is),
        ("response_format", semconv.GEN_AI_OUTPUT_TYPE, of_format),
    ),
    attributes={semconv.OPENAI_API_TYPE: "chat_completions"},
    rewrite_request=with_usage,
)

RESPONSES: Final = ApiEndpoint(
    OPENAI_RESPONSES,
    (
        *_SAMPLING,
        ("max_output_tokens", semconv.GEN_AI_REQUEST_MAX_TOKENS, as_it_is),
        ("previous_response_id", semconv.GEN_AI_REQUEST_PREVIOUS_RESPONSE_ID, as_it_is),
        ("conversation", semconv.GEN_AI_CONVERSATION_ID, identity),
        ("reasoning", semconv.GEN_AI_REQUEST_REASONING_LEVEL, effort),
        ("text_format", semconv.GEN_AI_OUTPUT_TYPE, of_format),
        ("text", semconv.GEN_AI_OUTPUT_TYPE, format_of_text),
        ("input", semconv.GEN_AI_CONVERSATION_COMPACTED, compacted),
    ),
    attributes={semconv.OPENAI_API_TYPE: "responses"},
)

FETCHED_RESPONSES: Final = ApiEndpoint(
    OPENAI_RESPONSES_FETCHED,
    (
        ("response_id", semconv.GEN_AI_RESPONSE_ID, as_it_is),
        ("starting_after", semconv.GEN_AI_REQUEST_STREAM_CURSOR, cursor),
    ),
    attributes={semconv.OPENAI_API_TYPE: "responses"},
)

COMPLETIONS: Final = ApiEndpoint(OPENAI_COMPLETIONS, _OF_COMPLETIONS, rewrite_request=with_usage)

EMBEDDINGS: Final = ApiEndpoint(
    OPENAI_EMBEDDINGS,
    (
        ("dimensions", semconv.GEN_AI_EMBEDDINGS_DIMENSION_COUNT, as_it_is),
        ("encoding_format", semconv.GEN_AI_REQUEST_ENCODING_FORMATS, each_text),
    ),
)
