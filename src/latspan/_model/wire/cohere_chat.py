"""
Cohere's ``/v2/chat``: typed events, the last of which has the finish reason and the token counts.

Source: Cohere API reference, "Chat with Streaming", and the types of Cohere's Python SDK.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from latspan._model.wire._api_format import ApiFormat, ChunkKind, StreamFormat
from latspan._model.wire._body import Body
from latspan._model.wire._cohere_chat_content import COHERE_CHAT_CONTENT
from latspan._model.wire._content import read
from latspan._model.wire._fields import finished, given, plain_or_object
from latspan._model.wire._usage import Usage, get_path
from latspan._model.wire.openai_chat import finish_reasons

_EMPTY = int(ChunkKind.EMPTY)
_REASONING = int(ChunkKind.REASONING)
_VISIBLE = int(ChunkKind.VISIBLE)

_FAILED: Final = frozenset({"ERROR", "TIMEOUT"})
"""Finish reasons of a response that the server could not complete."""


def _kind_of(chunk: Any) -> int:
    kind = read(chunk, "type")
    if not isinstance(kind, str):
        return _EMPTY
    message = read(read(chunk, "delta"), "message")
    if kind == "content-delta":
        content = read(message, "content")
        if read(content, "text"):
            return _VISIBLE
        return _REASONING if read(content, "thinking") else _EMPTY
    if kind in {"tool-call-start", "tool-call-delta"}:
        function = read(read(message, "tool_calls"), "function")
        return _VISIBLE if read(function, "arguments") else _EMPTY
    # The plan is the model's reasoning about the tools that it is going to call.
    return _REASONING if kind == "tool-plan-delta" and read(message, "tool_plan") else _EMPTY


_TYPE: Final = re.compile(
    rb'"type"\s*:\s*"(?:content-delta|tool-call-start|tool-call-delta|tool-plan-delta)"'
)
_TOKEN: Final = re.compile(rb'"(?:(text|arguments)|thinking|tool_plan)"\s*:\s*"(?!")')


def _kind_of_event(event: bytes) -> int:
    if not _TYPE.search(event):
        return _EMPTY
    found = _TOKEN.search(event)
    if found is None:
        return _EMPTY
    return _VISIBLE if found[1] else _REASONING


_COUNTS: Final = ("input_tokens", "output_tokens")


def _body_of(response: Any) -> Body:
    """Return the fields of an event or a whole response in the shape of a chat completion."""
    response = plain_or_object(response)
    kind = read(response, "type")
    if kind == "message-start":
        return {**given(response, "id"), "choices": [finished(None)]}
    # A whole response has the fields that an event has in its delta.
    last = read(response, "delta") if kind == "message-end" else response
    if kind is not None and kind != "message-end":
        return {}
    choice = finished(read(last, "finish_reason"))
    body: dict[str, Any] = {**given(response, "id"), "choices": [choice]}
    usage = read(last, "usage")
    if usage is not None:
        body["usage"] = {
            **given(usage, "cached_tokens"),
            "billed_units": given(read(usage, "billed_units"), *_COUNTS),
            "tokens": given(read(usage, "tokens"), *_COUNTS),
        }
    if choice["finish_reason"] in _FAILED:
        body["error"] = {"type": choice["finish_reason"]}
    return body


def _usage(bodies: Iterable[Body]) -> Usage | None:
    """
    Return the token counts of the last event: the billed ones, or the processed ones without them.

    Source: OpenTelemetry GenAI conventions, ``gen_ai.client.token.usage``.
    """
    found: Body = {}
    for body in bodies:
        found = body.get("usage") or found
    billed = get_path(found, "billed_units") or get_path(found, "tokens")
    if not billed:
        return None
    prompt, output = (_whole(get_path(billed, name)) for name in _COUNTS)
    cached = _whole(found.get("cached_tokens"))
    if isinstance(prompt, int) and isinstance(cached, int) and cached > prompt:
        # The cached tokens were not billed, so the billed ones are not the whole prompt.
        prompt = _whole(get_path(found, "tokens", _COUNTS[0]))
    return Usage(input=prompt, output=output, cached=cached)


def _whole(count: object) -> object:
    """Return a count, which Cohere defines as a floating-point number."""
    return int(count) if isinstance(count, float) and count.is_integer() else count


COHERE_CHAT: Final = ApiFormat(
    name="cohere.chat",
    operation="chat",
    finish_reasons=finish_reasons,
    usage=_usage,
    classify_chunk=_kind_of,
    # An event that contains a token has no other fields to read.
    only_text=_kind_of,
    to_mapping=_body_of,
    content=COHERE_CHAT_CONTENT,
    stream=StreamFormat(
        opens=re.compile(rb'"type"\s*:\s*"message-start"'),
        classify_chunk=_kind_of_event,
        provider="cohere",
        unmarked=True,
    ),
)
