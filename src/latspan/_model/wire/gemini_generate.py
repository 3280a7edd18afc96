"""
Google's ``generateContent``: each event of a stream is a response with a piece of the content.

The Gemini API and Vertex AI send it as JSON with names such as ``usageMetadata``; the SDK's objects
have names such as ``usage_metadata``. No event marks the end: the last one has a finish reason.

Source: Gemini API reference, ``GenerateContentResponse`` and ``UsageMetadata``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from latspan._model.wire._api_format import ApiFormat, ChunkKind, StreamFormat, all_finished
from latspan._model.wire._body import Body, to_plain
from latspan._model.wire._content import read
from latspan._model.wire._fields import either, finished, plain_or_object, sequence
from latspan._model.wire._gemini_content import GEMINI_CONTENT
from latspan._model.wire._usage import Usage, get_path, mapping
from latspan._model.wire.openai_chat import finish_reasons

_EMPTY = int(ChunkKind.EMPTY)
_REASONING = int(ChunkKind.REASONING)
_VISIBLE = int(ChunkKind.VISIBLE)

_MAX_PARSED: Final = 1 << 16
"""
Size in bytes up to which an event is parsed if the pattern for text does not decide about it.

A longer one contains an image or audio.
"""


def _kind_of(chunk: Any) -> int:
    most = _EMPTY
    for candidate in sequence(read(chunk, "candidates")):
        for part in sequence(read(read(candidate, "content"), "parts")):
            kind = _kind_of_part(part)
            if kind == _VISIBLE:
                return _VISIBLE
            most = max(most, kind)
    return most


def _kind_of_part(part: Any) -> int:
    if read(part, "text"):
        return _REASONING if read(part, "thought") else _VISIBLE
    call = either(part, "functionCall", "function_call")
    if call is not None and any(
        (read(call, "name"), read(call, "args"), either(call, "partialArgs", "partial_args"))
    ):
        return _VISIBLE
    for camel, snake in (("executableCode", "executable_code"), ("inlineData", "inline_data")):
        if either(part, camel, snake):
            return _VISIBLE
    return _EMPTY


def _only_text(chunk: Any) -> int:
    candidates = sequence(read(chunk, "candidates"))
    if len(candidates) != 1 or _reason_of(candidates[0]) is not None:
        return _EMPTY
    return _kind_of(chunk)


# The usual event has one part with text, perhaps with a signature behind it.
_ONE_TEXT: Final = re.compile(
    rb"""
    "parts"\s*:\s*\[\s*\{\s*"text"\s*:\s*"(?P<text>[^"\\]*+(?:\\.[^"\\]*+)*+)"
    (?:\s*,\s*"thought(?:Signature"\s*:\s*"[^"\\]*+"|"\s*:\s*(?P<thought>true)))*+\s*\}\s*\]
    """,
    re.VERBOSE | re.DOTALL,
)


def _kind_of_event(event: bytes) -> int:
    if event.count(b'"parts"') == 1:
        found = _ONE_TEXT.search(event)
        if found is not None:
            if not found["text"]:
                return _EMPTY
            return _REASONING if found["thought"] else _VISIBLE
    if len(event) > _MAX_PARSED:
        return _VISIBLE if b'"parts"' in event else _EMPTY
    return _kind_of(to_plain(event))


_COUNTS: Final = (
    ("promptTokenCount", "prompt_token_count"),
    ("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
    ("cachedContentTokenCount", "cached_content_token_count"),
    ("candidatesTokenCount", "candidates_token_count"),
    ("thoughtsTokenCount", "thoughts_token_count"),
    ("totalTokenCount", "total_token_count"),
)

_INPUT: Final = frozenset(camel for camel, _ in _COUNTS[:3])
"""Counts that the first event has; the others are final only in the last event."""


def _body_of(response: Any) -> Body:
    """Return the fields of a response in the shape of a chat completion, without its content."""
    response = plain_or_object(response)
    candidates = sequence(read(response, "candidates"))
    body: dict[str, Any] = {
        "choices": [finished(_reason_of(each), read(each, "index")) for each in candidates],
    }
    blocked = either(
        either(response, "promptFeedback", "prompt_feedback"), "blockReason", "block_reason"
    )
    if blocked and not candidates:
        # Instead of a candidate, the response has the reason why there is none.
        body["choices"] = [finished(blocked)]
    for name, camel, snake in (
        ("id", "responseId", "response_id"),
        ("model", "modelVersion", "model_version"),
    ):
        value = either(response, camel, snake)
        if isinstance(value, str):
            body[name] = value
    usage = either(response, "usageMetadata", "usage_metadata")
    if usage is not None:
        body["usage"] = {camel: either(usage, camel, snake) for camel, snake in _COUNTS}
    error = read(response, "error")
    if error:
        body["error"] = {"code": read(error, "code"), "type": read(error, "status")}
    return body if len(body) > 1 or body["choices"] else {}


def _reason_of(candidate: Any) -> object:
    reason = either(candidate, "finishReason", "finish_reason")
    reason = getattr(reason, "value", reason)
    return None if reason == "FINISH_REASON_UNSPECIFIED" else reason


def _usage(bodies: Iterable[Body]) -> Usage | None:
    """
    Return the token counts of the last event.

    Google counts the results of its own tools apart from the prompt, and reasoning apart from the
    candidates; the total shows the latter. The output of an unfinished response is not known.
    """
    counted: dict[str, Any] = {}
    over = False
    for body in bodies:
        over = over or all_finished(finish_reasons((body,)))
        counted |= {
            name: count
            for name, count in mapping(body.get("usage")).items()
            if isinstance(count, int) and (over or name in _INPUT)
        }
    if not counted:
        return None
    prompt, tools = counted.get("promptTokenCount"), counted.get("toolUsePromptTokenCount")
    output, thoughts = counted.get("candidatesTokenCount"), counted.get("thoughtsTokenCount")
    if output is None and thoughts is not None:
        # A limit was reached inside the reasoning: Google omits a count that is zero.
        output = 0
    return Usage(
        input=prompt if prompt is None or tools is None else prompt + tools,
        cached=counted.get("cachedContentTokenCount"),
        output=output,
        reasoning=thoughts,
        total=counted.get("totalTokenCount"),
    )


def _choices_requested(request: Mapping[str, Any]) -> int:
    count = get_path(request, "generationConfig", "candidateCount")
    return count if isinstance(count, int) and count > 1 else 1


GEMINI_GENERATE_CONTENT: Final = ApiFormat(
    name="gemini.generate_content",
    operation="generate_content",
    finish_reasons=finish_reasons,
    usage=_usage,
    classify_chunk=_kind_of,
    only_text=_only_text,
    to_mapping=_body_of,
    content=GEMINI_CONTENT,
    choices_requested=_choices_requested,
    stream=StreamFormat(
        # The search after each key stops at the next one or at a brace, so that the time is linear
        # in the length of the event.
        opens=re.compile(
            rb'"usageMetadata"\s*:\s*\{[^{}]*?"(?:prompt|total)TokenCount"'
            rb'|"candidates"\s*:\s*\[\s*\{(?:(?!"candidates").)*?"(?:content|finishReason)"\s*:'
            rb'|"promptFeedback"\s*:\s*\{\s*"blockReason"',
            re.DOTALL,
        ),
        classify_chunk=_kind_of_event,
        provider="gcp.gemini",
        unmarked=True,
        model_in_path=re.compile(r"/([^/:]+):streamGenerateContent$"),
    ),
)
