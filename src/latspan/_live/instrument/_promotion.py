"""Promotion of an HTTP exchange to a call if its body turns out to be a model's event stream."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote

from latspan import semconv
from latspan._live.operations import HttpExchange, ModelCall
from latspan._model.wire import FETCH_RESPONSE, ApiFormat, Framing, StreamFormat
from latspan._model.wire.anthropic_messages import ANTHROPIC_MESSAGES
from latspan._model.wire.bedrock_converse import BEDROCK_CONVERSE
from latspan._model.wire.bedrock_invoke import BEDROCK_INVOKE
from latspan._model.wire.cohere_chat import COHERE_CHAT
from latspan._model.wire.gemini_generate import GEMINI_GENERATE_CONTENT
from latspan._model.wire.ollama_chat import OLLAMA_CHAT, OLLAMA_GENERATE
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan._model.wire.openai_completions import OPENAI_COMPLETIONS
from latspan._model.wire.openai_responses import OPENAI_RESPONSES, OPENAI_RESPONSES_FETCHED

# Google's and Cohere's come first: in their events, the arguments of a tool call or a document may
# be the application's own JSON, in which a pattern of another API could match.
_ASKED: Final = (
    GEMINI_GENERATE_CONTENT,
    COHERE_CHAT,
    ANTHROPIC_MESSAGES,
    OPENAI_RESPONSES,
    OPENAI_COMPLETIONS,
    OPENAI_CHAT,
)
"""API formats of server-sent events; a stream is recognised by its first event."""

_FETCHED: Final = tuple(
    OPENAI_RESPONSES_FETCHED if each is OPENAI_RESPONSES else each for each in _ASKED
)
"""The same for GET requests, which fetch an existing response and generate nothing new."""

_OTHERS: Final = {
    Framing.LINES: (OLLAMA_CHAT, OLLAMA_GENERATE),
    Framing.MESSAGES: (BEDROCK_CONVERSE, BEDROCK_INVOKE),
}
"""API formats of other framings; a stream is recognised by its first event too."""

_PROVIDERS: Final = (
    (re.compile(r"api\.openai\.com"), "openai"),
    (re.compile(r"api\.anthropic\.com"), "anthropic"),
    (re.compile(r"(?:api|codestral)\.mistral\.ai"), "mistral_ai"),
    (re.compile(r"(?:.+-)?aiplatform\.(?:.+\.)?googleapis\.com"), "gcp.vertex_ai"),
    (re.compile(r"bedrock-runtime(?:-fips)?\..+"), "aws.bedrock"),
)
"""Provider by the name of the server, whatever the format of its responses."""

_MAX_READ: Final = 1 << 16
"""Maximum size in bytes of a request that is parsed on the caller's thread, in less than 1 ms."""

_NAME: Final = rb'"model"\s*:\s*"([^"\\]{1,256})"'
_FIRST: Final = re.compile(rb"\s*\{\s*" + _NAME)
_LAST: Final = re.compile(_NAME + rb"\s*\}\s*$")


def formats_of(method: str, framing: Framing) -> Sequence[ApiFormat]:
    """
    Return the API formats that the response stream of an exchange may have.

    Args:
        method: HTTP method of the exchange.
        framing: Framing of the response.
    """
    if framing is not Framing.EVENTS:
        return _OTHERS[framing]
    return _FETCHED if method.upper() == "GET" else _ASKED


def promoted(
    exchange: HttpExchange, api_format: ApiFormat, request_body: bytes | None
) -> ModelCall | None:
    """
    Promote an exchange to a call: a plain HTTP client is calling a model server.

    Args:
        exchange: The exchange.
        api_format: API format of the response.
        request_body: The request's body, if it is available.

    Returns:
        The call; ``None`` if the exchange has ended meanwhile.
    """
    stream = api_format.stream
    host = "" if exchange.server is None else exchange.server[0]
    provider = next((name for names, name in _PROVIDERS if names.fullmatch(host)), None)
    provider = provider or ("" if stream is None else stream.provider)
    request = _request_in(request_body)
    name = _model_in_path(stream, exchange.path) or request.get("model")
    model = name[:256] if isinstance(name, str) else None
    named = {} if model is None else {"model": model}
    streamed = (
        {} if api_format.operation == FETCH_RESPONSE else {semconv.GEN_AI_REQUEST_STREAM: True}
    )
    return exchange.promoted(
        api_format,
        name=api_format.operation if model is None else f"{api_format.operation} {model}",
        attributes={
            semconv.GEN_AI_OPERATION_NAME: api_format.operation,
            semconv.GEN_AI_PROVIDER_NAME: provider,
            **streamed,
            **({} if exchange.exports_path else {semconv.URL_FULL: exchange.origin}),
            **({} if model is None else {semconv.GEN_AI_REQUEST_MODEL: model}),
        },
        series={"provider": provider, **named},
        choices=api_format.choices_requested(request),
    )


def _model_in_path(stream: StreamFormat | None, path: str) -> str | None:
    if stream is None or stream.model_in_path is None:
        return None
    found = stream.model_in_path.search(path)
    return None if found is None else unquote(found[1])


def _request_in(body: bytes | None) -> Mapping[str, Any]:
    """
    Return the fields of a request body, and nothing that occurs only inside its content.

    A long request is not parsed: the model is only found if it is the first or the last member.
    The patterns cannot match a nested member there.
    """
    if body is None:
        return {}
    if len(body) > _MAX_READ:
        found = _FIRST.match(body) or _LAST.search(body, len(body) - 512)
        return {} if found is None else {"model": found[1].decode(errors="replace")}
    try:
        request: Any = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", request) if isinstance(request, dict) else {}
