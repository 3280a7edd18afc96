"""
Ollama's own API: one JSON object per line, of ``/api/chat`` and of ``/api/generate``.

The last object has ``done``, the token counts and Ollama's durations.

Source: Ollama, ``docs/api.md`` and ``api/types.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from latspan._model.wire._api_format import ApiFormat, ChunkKind, Framing, StreamFormat
from latspan._model.wire._body import Body
from latspan._model.wire._content import read
from latspan._model.wire._fields import finished, given, plain_or_object
from latspan._model.wire._ollama_content import OLLAMA_CHAT_CONTENT, OLLAMA_GENERATE_CONTENT
from latspan._model.wire._usage import Usage
from latspan._model.wire.openai_chat import finish_reasons

_EMPTY = int(ChunkKind.EMPTY)
_REASONING = int(ChunkKind.REASONING)
_VISIBLE = int(ChunkKind.VISIBLE)

_FIELDS: Final = (
    "model",
    "done",
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
)
"""Fields that are copied: the durations have Ollama's names, which its evidence adapter reads."""


def _kind_of(chunk: Any) -> int:
    message = read(chunk, "message")
    if message is None:
        if read(chunk, "response"):
            return _VISIBLE
        return _REASONING if read(chunk, "thinking") else _EMPTY
    if read(message, "content") or read(message, "tool_calls"):
        return _VISIBLE
    return _REASONING if read(message, "thinking") else _EMPTY


def _only_text(chunk: Any) -> int:
    return _EMPTY if read(chunk, "done") else _kind_of(chunk)


# A quote inside a JSON string is escaped, so text cannot look like a key. `(?!")` excludes empty
# values.
_TOKEN: Final = re.compile(
    rb'"(?:(?:content|response)"\s*:\s*"(?!")()|tool_calls"\s*:\s*\[\s*\{()|thinking"\s*:\s*"(?!"))'
)
"""Fields that contain tokens. A group takes part in a match only for visible content."""


def _kind_of_line(line: bytes) -> int:
    kind = _EMPTY
    for found in _TOKEN.finditer(line):
        if found.lastindex is not None:
            return _VISIBLE
        kind = _REASONING
    return kind


def _body_of(response: Any) -> Body:
    response = plain_or_object(response)
    body = given(response, *_FIELDS)
    if read(response, "error"):
        # The message may contain a part of the prompt.
        return {**body, "error": True}
    return {**body, "choices": [finished(read(response, "done_reason"))]} if body else {}


def _ended(bodies: Iterable[Body]) -> bool:
    return any(body.get("done") is True for body in bodies)


def _usage(bodies: Iterable[Body]) -> Usage | None:
    counted: Body | None = None
    for body in bodies:
        if body.get("done") is True:
            counted = body
    if counted is None or not ("eval_count" in counted or "prompt_eval_count" in counted):
        return None
    return Usage(input=counted.get("prompt_eval_count"), output=counted.get("eval_count"))


# Other streams of Ollama, for example the progress of a download, have only a part of these fields.
# Each look-ahead begins at the start of the line, so the time is linear in its length.
_OPENS: Final = (
    rb'\A\{(?=.*?"created_at"\s*:\s*")(?=.*?"done"\s*:\s*(?:true|false))(?=.*?"%s"\s*:\s*%s)'
)

OLLAMA_CHAT: Final = ApiFormat(
    name="ollama.chat",
    operation="chat",
    is_complete=_ended,
    finish_reasons=finish_reasons,
    usage=_usage,
    classify_chunk=_kind_of,
    only_text=_only_text,
    to_mapping=_body_of,
    content=OLLAMA_CHAT_CONTENT,
    stream=StreamFormat(
        opens=re.compile(_OPENS % (b"message", rb"\{"), re.DOTALL),
        classify_chunk=_kind_of_line,
        provider="ollama",
        framing=Framing.LINES,
        unmarked=True,
    ),
)

OLLAMA_GENERATE: Final = replace(
    OLLAMA_CHAT,
    name="ollama.generate",
    operation="text_completion",
    content=OLLAMA_GENERATE_CONTENT,
    stream=StreamFormat(
        opens=re.compile(_OPENS % (b"response", b'"'), re.DOTALL),
        classify_chunk=_kind_of_line,
        provider="ollama",
        framing=Framing.LINES,
        unmarked=True,
    ),
)
"""Format of ``/api/generate``, which completes a prompt without a conversation."""
