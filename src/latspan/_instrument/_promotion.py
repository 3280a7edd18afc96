"""Promotion of an HTTP exchange to a call if its body turns out to be a model's event stream."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from latspan import semconv
from latspan._operations import ModelCall
from latspan._wire import ApiFormat, choices_requested
from latspan._wire.anthropic_messages import ANTHROPIC_MESSAGES
from latspan._wire.openai_chat import OPENAI_CHAT
from latspan._wire.openai_completions import OPENAI_COMPLETIONS
from latspan._wire.openai_responses import OPENAI_RESPONSES, OPENAI_RESPONSES_FETCHED

__all__ = ["formats_of", "promote"]

_ASKED: Final = (ANTHROPIC_MESSAGES, OPENAI_RESPONSES, OPENAI_COMPLETIONS, OPENAI_CHAT)
"""API formats whose streams are recognised by their first event."""

_FETCHED: Final = (ANTHROPIC_MESSAGES, OPENAI_RESPONSES_FETCHED, OPENAI_COMPLETIONS, OPENAI_CHAT)
"""The same for GET requests, which fetch an existing response and generate nothing new."""

_PROVIDERS: Final = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}

_LONGEST_READ: Final = 1 << 16
"""Maximum size in bytes of a request that is parsed on the caller's thread, in less than 1 ms."""

_NAME: Final = rb'"model"\s*:\s*"([^"\\]{1,256})"'
_FIRST: Final = re.compile(rb"\s*\{\s*" + _NAME)
_LAST: Final = re.compile(_NAME + rb"\s*\}\s*$")


def formats_of(call: ModelCall) -> Sequence[ApiFormat]:
    """Return the API formats that the response stream of a call or an exchange may have."""
    if call.api_format is not None:
        return (call.api_format,)
    return _FETCHED if call.method.upper() == "GET" else _ASKED


def promote(call: ModelCall, api_format: ApiFormat, request_body: bytes | None) -> None:
    """
    Promote the exchange to a call: a plain HTTP client is calling a model server.

    Args:
        call: The exchange.
        api_format: API format of the response.
        request_body: The request's body, if it is available.
    """
    if call.gathered is not None:
        call.request = request_body
    stream = api_format.stream
    host = "" if call.server is None else call.server[0]
    provider = _PROVIDERS.get(host) or ("" if stream is None else stream.provider)
    request = _request_in(request_body)
    name = request.get("model")
    model = name[:256] if isinstance(name, str) else None
    call.choices = choices_requested(request)
    named = {} if model is None else {"model": model}
    call.becomes_call(
        api_format,
        name=api_format.operation if model is None else f"{api_format.operation} {model}",
        attributes={
            semconv.GEN_AI_OPERATION_NAME: api_format.operation,
            semconv.GEN_AI_PROVIDER_NAME: provider,
            semconv.GEN_AI_REQUEST_STREAM: True,
            **({} if model is None else {semconv.GEN_AI_REQUEST_MODEL: model}),
        },
        series={"provider": provider, **named},
    )


def _request_in(body: bytes | None) -> Mapping[str, Any]:
    """
    Return the fields of a request body, and nothing that occurs only inside its content.

    A long request is not parsed: the model is only found if it is the first or the last member.
    The patterns cannot match a nested member there.
    """
    if body is None:
        return {}
    if len(body) > _LONGEST_READ:
        found = _FIRST.match(body) or _LAST.search(body, len(body) - 512)
        return {} if found is None else {"model": found[1].decode(errors="replace")}
    try:
        request: Any = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", request) if isinstance(request, dict) else {}
