"""Requests to ``messages``: how they are recognised, and the attributes of their calls."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from latspan import semconv
from latspan.integrations import Call, open_call
from latspan.integrations.formats import ANTHROPIC_MESSAGES, get_path
from latspan_instrumentation.stainless._clients import requested_body, server_of
from latspan_instrumentation.stainless._own_tracing import records_spans

_PATH: Final = "/v1/messages"

_REQUEST_ATTRIBUTES: Final = {
    "max_tokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
    "temperature": semconv.GEN_AI_REQUEST_TEMPERATURE,
    "top_p": semconv.GEN_AI_REQUEST_TOP_P,
    "top_k": semconv.GEN_AI_REQUEST_TOP_K,
}

_PROVIDERS: Final = {"Bedrock": "aws.bedrock", "Vertex": "gcp.vertex_ai"}
"""Names of the providers, by a word in the name of the client's class."""


def open_messages(client: Any, kwargs: Mapping[str, Any]) -> Call | None:
    """
    Open a call if the request is for a message.

    Args:
        client: The client whose ``request`` is called.
        kwargs: The arguments of ``request``.
    """
    options: Any = kwargs.get("options")
    if str(getattr(options, "url", "")).partition("?")[0] != _PATH or options.method != "post":
        return None
    body = requested_body(options)
    model = body.get("model")
    return open_call(
        operation=ANTHROPIC_MESSAGES.operation,
        provider=_provider_of(client.__class__),
        model=model if isinstance(model, str) else None,
        api_format=ANTHROPIC_MESSAGES,
        server=server_of(client),
        client=client,
        streamed=bool(kwargs.get("stream")),
        attributes=_attributes(body),
        request=body,
        awaits_span=records_spans(client),
    )


def _attributes(body: Mapping[str, Any]) -> dict[str, Any]:
    # An argument that the caller omitted is a sentinel of the SDK, or absent.
    attributes: dict[str, Any] = {
        key: body[name]
        for name, key in _REQUEST_ATTRIBUTES.items()
        if isinstance(body.get(name), int | float)
    }
    stops = body.get("stop_sequences")
    if isinstance(stops, list | tuple):
        attributes[semconv.GEN_AI_REQUEST_STOP_SEQUENCES] = tuple(
            stop for stop in cast("Sequence[object]", stops) if isinstance(stop, str)
        )
    effort = get_path(body, "output_config", "effort")
    if isinstance(effort, str):
        attributes[semconv.GEN_AI_REQUEST_REASONING_LEVEL] = effort
    formats = (
        get_path(body, "output_config", "format", "type"),
        get_path(body, "output_format", "type"),
    )
    if "json_schema" in formats:
        attributes[semconv.GEN_AI_OUTPUT_TYPE] = "json"
    return attributes


@functools.cache
def _provider_of(client_class: type) -> str:
    for cls in client_class.__mro__:
        for word, provider in _PROVIDERS.items():
            if word in cls.__name__:
                return provider
    return "anthropic"
