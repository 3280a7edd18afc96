"""The endpoints served by a model: the attributes of a request and the format of a response."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, cast

from latspan import semconv
from latspan.integrations import Call, open_call
from latspan.integrations.formats import (
    MISTRAL_CHAT,
    MISTRAL_FIM,
    OPENAI_EMBEDDINGS,
    ApiFormat,
)

# The SDK has a sentinel for an argument that the caller omitted. Each of the following functions
# returns `None` for it.


def _plain(value: Any) -> str | float | None:
    return value if isinstance(value, str | int | float) else None


def _texts(value: Any) -> tuple[str, ...] | None:
    """Return the texts of a list, or a single text, as a tuple."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        return None
    return tuple(each for each in cast("list[object]", value) if isinstance(each, str)) or None


def _output_type(value: Any) -> str | None:
    """Return the semantic conventions' name of a ``response_format``, an object or a mapping."""
    if isinstance(value, Mapping):
        kind = cast("Mapping[str, object]", value).get("type")
    else:
        kind = getattr(value, "type", None)
    if not isinstance(kind, str):
        return None
    return "json" if kind.startswith("json") else kind


def _several(value: Any) -> int | None:
    """Return the number of choices, which is an attribute only if it is not 1."""
    return value if isinstance(value, int) and value != 1 else None


_ATTRIBUTES: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "temperature": (semconv.GEN_AI_REQUEST_TEMPERATURE, _plain),
    "top_p": (semconv.GEN_AI_REQUEST_TOP_P, _plain),
    "top_k": (semconv.GEN_AI_REQUEST_TOP_K, _plain),
    "max_tokens": (semconv.GEN_AI_REQUEST_MAX_TOKENS, _plain),
    "random_seed": (semconv.GEN_AI_REQUEST_SEED, _plain),
    "frequency_penalty": (semconv.GEN_AI_REQUEST_FREQUENCY_PENALTY, _plain),
    "presence_penalty": (semconv.GEN_AI_REQUEST_PRESENCE_PENALTY, _plain),
    "stop": (semconv.GEN_AI_REQUEST_STOP_SEQUENCES, _texts),
    "n": (semconv.GEN_AI_REQUEST_CHOICE_COUNT, _several),
    "reasoning_effort": (semconv.GEN_AI_REQUEST_REASONING_LEVEL, _plain),
    "response_format": (semconv.GEN_AI_OUTPUT_TYPE, _output_type),
    "agent_id": (semconv.GEN_AI_AGENT_ID, _plain),
    "output_dimension": (semconv.GEN_AI_EMBEDDINGS_DIMENSION_COUNT, _plain),
    "encoding_format": (semconv.GEN_AI_REQUEST_ENCODING_FORMATS, _texts),
}
"""By name of an argument: the attribute that it sets, and the function that reads its value."""


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    """
    One endpoint of the API.

    Args:
        api_format: The format of its responses.
        operation: The GenAI conventions' operation.
        streams: Whether it has a streamed form.
    """

    api_format: ApiFormat
    operation: str
    streams: bool = True

    def open(self, resource: Any, arguments: Mapping[str, Any]) -> Call | None:
        """Open the call of a method that returns a complete response."""
        return self._open(resource, arguments, streamed=False)

    def open_stream(self, resource: Any, arguments: Mapping[str, Any]) -> Call | None:
        """Open the call of a method that returns a stream."""
        return self._open(resource, arguments, streamed=True)

    def _open(self, resource: Any, arguments: Mapping[str, Any], *, streamed: bool) -> Call | None:
        config = resource.sdk_configuration
        own_span = _own_span(config)
        model = arguments.get("model")
        attributes: dict[str, Any] = {}
        for argument, value in arguments.items():
            if argument in _ATTRIBUTES:
                name, read = _ATTRIBUTES[argument]
                found = read(value)
                if found is not None:
                    attributes[name] = found
        return open_call(
            operation=self.operation,
            provider=_provider_of(resource.__class__),
            model=model if isinstance(model, str) else None,
            api_format=self.api_format,
            server=_server_of(config, arguments),
            streamed=streamed,
            choices=self.api_format.choices_requested(arguments),
            attributes=attributes,
            request=arguments,
            awaits_span=own_span is _OwnSpan.APPLICATION,
            hides_span=own_span is _OwnSpan.MISTRAL,
        )


CHAT: Final = ApiEndpoint(MISTRAL_CHAT, "chat")
FIM: Final = ApiEndpoint(MISTRAL_FIM, "text_completion")
# The agent, which the server stores, determines the model.
AGENTS: Final = ApiEndpoint(MISTRAL_CHAT, "invoke_agent")
EMBEDDINGS: Final = ApiEndpoint(OPENAI_EMBEDDINGS, "embeddings", streams=False)


@functools.cache
def _provider_of(resource_class: type) -> str:
    """Return the semantic conventions' name of the provider for a class of resources."""
    module = resource_class.__module__
    if module.startswith("mistralai.azure."):
        return "azure.ai.inference"
    return "gcp.vertex_ai" if module.startswith("mistralai.gcp.") else "mistral_ai"


def _server_of(config: Any, arguments: Mapping[str, Any]) -> str | None:
    """Return the base URL of the server: the call's own one, or the client's."""
    url = arguments.get("server_url") or config.server_url
    if not url:
        url, _ = config.get_server_details()
    return url if isinstance(url, str) else None


_VARIABLE: Final = "MISTRAL_SDK_TELEMETRY"


class _OwnSpan(Enum):
    """Destination of the span that the SDK itself opens for a request."""

    NONE = auto()
    """It opens none, or one that is not current while the request is sent."""
    APPLICATION = auto()
    """The application's tracer provider."""
    MISTRAL = auto()
    """A tracer provider of the SDK, which exports to Mistral only."""


def _own_span(config: Any) -> _OwnSpan:
    """
    Return the destination of the span that the SDK will open for a request.

    A client decides at its first request, by its setting ``telemetry`` or by a variable. The first
    versions of the SDK open a span for each request, which is not current while it is sent.
    """
    hooks = config.__dict__.get("_hooks")
    for hook in getattr(hooks, "before_request_hooks", ()):
        # A test of the name takes less time than a missing attribute of each other hook.
        if hook.__class__.__name__ != "TracingHook":
            continue
        uses_global = getattr(hook, "_telemetry_use_global_provider", None)
        if uses_global is None:
            return _OwnSpan.NONE
        if uses_global:
            return _OwnSpan.APPLICATION
        if hook.tracer_provider is not None:
            own = hook.tracer_provider is hook._auto_telemetry_provider
            return _OwnSpan.MISTRAL if own else _OwnSpan.APPLICATION
        return _OwnSpan.NONE if hook._telemetry_auto_disabled else _requested_span(config)
    return _OwnSpan.NONE


def _requested_span(config: Any) -> _OwnSpan:
    setting: object = getattr(config, "telemetry", None)
    if not isinstance(setting, bool | str):
        setting = os.environ.get(_VARIABLE, "")
    name = str(setting).strip().lower()
    if name == "global":
        return _OwnSpan.APPLICATION
    return _OwnSpan.MISTRAL if name in {"dedicated", "true"} else _OwnSpan.NONE
