"""Requests to Bedrock's runtime: which of them are calls, and the attributes of their calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from latspan import semconv
from latspan.integrations import Call, open_call
from latspan.integrations.formats import (
    BEDROCK_CONVERSE,
    BEDROCK_INVOKE,
    ApiFormat,
    get_path,
)

_SERVICE: Final = "bedrock-runtime"
_PROVIDER: Final = "aws.bedrock"


class _Operation(NamedTuple):
    """
    An operation of the service that runs a model.

    Args:
        api_format: The format of its responses.
        streamed: Whether the response is streamed.
    """

    api_format: ApiFormat
    streamed: bool


_OPERATIONS: Final = {
    "Converse": _Operation(BEDROCK_CONVERSE, streamed=False),
    "ConverseStream": _Operation(BEDROCK_CONVERSE, streamed=True),
    "InvokeModel": _Operation(BEDROCK_INVOKE, streamed=False),
    "InvokeModelWithResponseStream": _Operation(BEDROCK_INVOKE, streamed=True),
}

_EMBEDDINGS: Final = replace(
    BEDROCK_INVOKE, name="bedrock.embeddings", operation="embeddings", content=None
)

_OTHER_MODELS: Final = ("rerank", "image", "canvas", "reel", "stability.")
"""
Parts of the ids of models that generate no text: their requests are not recorded as calls.

An id that is the ARN of an application's own profile or of a provisioned model does not name the
model, so such a request is always recorded.
"""

_MAX_BODY_CHARS: Final = 1 << 18
"""Maximum length of a request's body that is parsed, on the caller's thread, for its parameters."""

_PARAMETERS: Final = {
    semconv.GEN_AI_REQUEST_MAX_TOKENS: (
        "maxTokens",
        "max_tokens",
        "max_completion_tokens",
        "max_new_tokens",
        "maxTokenCount",
        "max_gen_len",
    ),
    semconv.GEN_AI_REQUEST_TEMPERATURE: ("temperature",),
    semconv.GEN_AI_REQUEST_TOP_P: ("topP", "top_p", "p"),
    semconv.GEN_AI_REQUEST_TOP_K: ("topK", "top_k", "k"),
    semconv.GEN_AI_REQUEST_SEED: ("seed",),
}
"""Names of the numeric parameters, in Converse and in the formats of the models."""

_STOPS: Final = ("stopSequences", "stop_sequences", "stop")

_GROUPS: Final = ("inferenceConfig", "textGenerationConfig", "additionalModelRequestFields")
"""Fields of a request that hold its parameters; in other formats they are fields themselves."""


def open_request(client: Any, kwargs: Mapping[str, Any]) -> Call | None:
    """
    Open a call if the request runs a model of Bedrock.

    Args:
        client: The client of any AWS service.
        kwargs: Name of the operation and its parameters, as botocore names the arguments.
    """
    operation = _OPERATIONS.get(kwargs["operation_name"])
    if operation is None or client.meta.service_model.service_name != _SERVICE:
        return None
    parameters = kwargs["api_params"]
    model = parameters.get("modelId")
    name = model if isinstance(model, str) else ""
    api_format, streamed = operation
    request = parameters
    if api_format is BEDROCK_INVOKE:
        if any(part in name for part in _OTHER_MODELS):
            return None
        if "embed" in name:
            api_format = _EMBEDDINGS
        request = _parsed(parameters.get("body"))
    return open_call(
        operation=api_format.operation,
        provider=_PROVIDER,
        model=name or None,
        api_format=api_format,
        server=client.meta.endpoint_url,
        streamed=streamed,
        attributes=_attributes(request),
        request=request,
    )


def _parsed(body: object) -> Mapping[str, Any]:
    """Return the fields of a request in a model's own format, ``{}`` if they are unknown."""
    # A file is not read, because botocore reads it.
    if not isinstance(body, str | bytes | bytearray) or len(body) > _MAX_BODY_CHARS:
        return {}
    try:
        fields: object = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", fields) if isinstance(fields, dict) else {}


def _attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    inside = [request.get(name) for name in _GROUPS]
    groups = [cast("Mapping[str, Any]", each) for each in inside if isinstance(each, Mapping)]
    attributes: dict[str, Any] = {}
    for fields in (*groups, request):
        for attribute, names in _PARAMETERS.items():
            value = _first(fields, names)
            if isinstance(value, int | float) and not isinstance(value, bool):
                attributes.setdefault(attribute, value)
        stops = _first(fields, _STOPS)
        if isinstance(stops, list | tuple):
            texts = [each for each in cast("Sequence[object]", stops) if isinstance(each, str)]
            attributes.setdefault(semconv.GEN_AI_REQUEST_STOP_SEQUENCES, tuple(texts))
    effort = get_path(request, "outputConfig", "effort")
    if isinstance(effort, str):
        attributes[semconv.GEN_AI_REQUEST_REASONING_LEVEL] = effort
    if get_path(request, "outputConfig", "textFormat", "type") == "json_schema":
        attributes[semconv.GEN_AI_OUTPUT_TYPE] = "json"
    return attributes


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> object:
    return next((fields[name] for name in names if name in fields), None)
