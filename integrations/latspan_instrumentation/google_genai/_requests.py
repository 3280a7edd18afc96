"""Requests to a model: the attributes of their calls, read from the arguments of the SDK."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from latspan import semconv
from latspan.integrations import Call, open_call
from latspan.integrations.formats import (
    GEMINI_GENERATE_CONTENT,
    ApiFormat,
    ChunkKind,
    Usage,
)

_JSON: Final = "application/json"
_TEXT: Final = "text/plain"

_OUTPUT_TYPES: Final = {"TEXT": "text", "IMAGE": "image", "AUDIO": "speech", "VIDEO": "video"}
"""Output types of the semantic conventions, by the SDK's modality."""

_CAMEL: Final = re.compile(r"_([a-z])")


def _body_of(response: Any) -> Mapping[str, Any]:
    """Return the fields of a response; a raw one, which the SDK has not parsed, has only a text."""
    raw: object = getattr(getattr(response, "sdk_http_response", None), "body", None)
    return GEMINI_GENERATE_CONTENT.to_mapping(raw.encode() if isinstance(raw, str) else response)


_GENERATE_CONTENT: Final = replace(GEMINI_GENERATE_CONTENT, to_mapping=_body_of)


def _never_a_token(chunk: Any) -> int:
    del chunk
    return int(ChunkKind.EMPTY)


def _embeddings_body_of(response: Any) -> Mapping[str, Any]:
    """
    Return the token count of a response with embeddings; the long vectors are not copied.

    It is reported for the whole request, or per text in the statistics of each embedding, as
    Vertex AI does. Older versions of the SDK read only the latter.
    """
    count: object = getattr(getattr(response, "usage_metadata", None), "prompt_token_count", None)
    if not isinstance(count, int):
        embeddings: Any = getattr(response, "embeddings", None)
        counts = [
            getattr(getattr(each, "statistics", None), "token_count", None)
            for each in cast("list[object]", embeddings or ())
        ]
        # A partial sum would be too low.
        known = [each for each in counts if isinstance(each, int | float)]
        count = int(sum(known)) if known and len(known) == len(counts) else None
    return {"tokens": count}


def _embeddings_usage(bodies: Iterable[Mapping[str, Any]]) -> Usage | None:
    counts = [body["tokens"] for body in bodies if body.get("tokens") is not None]
    return Usage(input=counts[-1]) if counts else None


_EMBEDDINGS: Final = ApiFormat(
    name="gemini.embeddings",
    operation="embeddings",
    classify_chunk=_never_a_token,
    to_mapping=_embeddings_body_of,
    usage=_embeddings_usage,
)


def open_generation(models: Any, kwargs: Mapping[str, Any]) -> Call | None:
    """
    Open a call for content that is not streamed.

    Args:
        models: The ``Models`` or ``AsyncModels`` of a client.
        kwargs: The arguments of the method.
    """
    return _open_generation(models, kwargs, streamed=False)


def open_stream(models: Any, kwargs: Mapping[str, Any]) -> Call | None:
    """Open a call for content that is streamed; the arguments are those of the other function."""
    return _open_generation(models, kwargs, streamed=True)


def open_embeddings(models: Any, kwargs: Mapping[str, Any]) -> Call | None:
    """Open a call for embeddings; the arguments are those of the other functions."""
    return _open(_EMBEDDINGS, models, kwargs, attributes=_EMBEDDING_ATTRIBUTES)


def _open_generation(models: Any, kwargs: Mapping[str, Any], *, streamed: bool) -> Call | None:
    config = kwargs.get("config")
    choices = _field(config, "candidate_count")
    request = {
        "contents": kwargs.get("contents"),
        "system_instruction": _field(config, "system_instruction"),
        "tools": _field(config, "tools"),
    }
    return _open(
        _GENERATE_CONTENT,
        models,
        kwargs,
        attributes=_GENERATION_ATTRIBUTES,
        streamed=streamed,
        choices=choices if isinstance(choices, int) else 1,
        request={name: value for name, value in request.items() if value is not None},
    )


def _open(
    api_format: ApiFormat,
    models: Any,
    kwargs: Mapping[str, Any],
    *,
    attributes: Mapping[str, Callable[[Any], Any]],
    **more: Any,
) -> Call | None:
    client, config = models._api_client, kwargs.get("config")
    found = {} if config is None else {name: read(config) for name, read in attributes.items()}
    return open_call(
        operation=api_format.operation,
        provider="gcp.vertex_ai" if getattr(client, "vertexai", False) else "gcp.gemini",
        model=_name_of(kwargs.get("model")),
        api_format=api_format,
        server=_base_url(client, config),
        attributes={name: value for name, value in found.items() if value is not None},
        **more,
    )


def _name_of(model: object) -> str | None:
    """Return the name of a model without ``models/`` or the resource that the model belongs to."""
    return model.rpartition("/")[2] if isinstance(model, str) and model else None


def _base_url(client: Any, config: Any) -> str | None:
    for options in (_field(config, "http_options"), getattr(client, "_http_options", None)):
        url = _field(options, "base_url")
        if isinstance(url, str) and url:
            return url
    return None


def _field(config: Any, name: str) -> Any:
    """Return a field of an object, or of a ``dict``, which may have the names of the API."""
    if isinstance(config, Mapping):
        fields = cast("Mapping[str, Any]", config)
        found = fields.get(name)
        return fields.get(_CAMEL.sub(_upper, name)) if found is None else found
    return getattr(config, name, None)


def _upper(found: re.Match[str]) -> str:
    return found[1].upper()


def _number(name: str, config: Any) -> int | float | None:
    value = _field(config, name)
    return value if isinstance(value, int | float) else None


def _top_k(config: Any) -> int | float | None:
    # The SDK declares a fraction, the convention an integer.
    value = _number("top_k", config)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _choices(config: Any) -> int | None:
    value = _field(config, "candidate_count")
    return value if isinstance(value, int) and value != 1 else None


def _stops(config: Any) -> tuple[str, ...] | None:
    stops = _field(config, "stop_sequences")
    if not isinstance(stops, list | tuple):
        return None
    return tuple(each for each in cast("list[object]", stops) if isinstance(each, str)) or None


def _level(config: Any) -> str | None:
    level = _field(_field(config, "thinking_config"), "thinking_level")
    text = getattr(level, "value", level)
    # The SDK accepts the level in either case.
    return text.lower() if isinstance(text, str) else None


def _output_type(config: Any) -> str | None:
    schemas = (_field(config, "response_schema"), _field(config, "response_json_schema"))
    kind = _field(config, "response_mime_type")
    if kind == _JSON or any(schema is not None for schema in schemas):
        return "json"
    modalities = _field(config, "response_modalities")
    if isinstance(modalities, list | tuple) and len(cast("list[object]", modalities)) == 1:
        modality = cast("list[Any]", modalities)[0]
        return _OUTPUT_TYPES.get(str(getattr(modality, "value", modality)).upper())
    return "text" if kind == _TEXT else None


_GENERATION_ATTRIBUTES: Final[Mapping[str, Callable[[Any], Any]]] = {
    semconv.GEN_AI_REQUEST_TEMPERATURE: partial(_number, "temperature"),
    semconv.GEN_AI_REQUEST_TOP_P: partial(_number, "top_p"),
    semconv.GEN_AI_REQUEST_TOP_K: _top_k,
    semconv.GEN_AI_REQUEST_MAX_TOKENS: partial(_number, "max_output_tokens"),
    semconv.GEN_AI_REQUEST_SEED: partial(_number, "seed"),
    semconv.GEN_AI_REQUEST_FREQUENCY_PENALTY: partial(_number, "frequency_penalty"),
    semconv.GEN_AI_REQUEST_PRESENCE_PENALTY: partial(_number, "presence_penalty"),
    semconv.GEN_AI_REQUEST_STOP_SEQUENCES: _stops,
    semconv.GEN_AI_REQUEST_CHOICE_COUNT: _choices,
    semconv.GEN_AI_REQUEST_REASONING_LEVEL: _level,
    semconv.GEN_AI_OUTPUT_TYPE: _output_type,
}

_EMBEDDING_ATTRIBUTES: Final[Mapping[str, Callable[[Any], Any]]] = {
    semconv.GEN_AI_EMBEDDINGS_DIMENSION_COUNT: partial(_number, "output_dimensionality"),
}
