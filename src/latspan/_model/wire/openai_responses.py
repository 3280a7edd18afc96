"""
OpenAI Responses API: typed events, the last of which contains the whole response.

Chunks are SDK models, so their fields are read as attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, cast

from latspan import semconv
from latspan._model.wire._api_format import (
    FETCH_RESPONSE,
    ApiFormat,
    ChunkKind,
    StreamFormat,
    all_finished,
)
from latspan._model.wire._body import Body, fields_without, identity_in, named_in, to_plain
from latspan._model.wire._content import listed
from latspan._model.wire._openai_responses_content import (
    OPENAI_FETCHED_RESPONSES_CONTENT,
    OPENAI_RESPONSES_CONTENT,
    TOOL_CALLS,
)
from latspan._model.wire._usage import Usage, get_path

_EMPTY = int(ChunkKind.EMPTY)
_REASONING = int(ChunkKind.REASONING)
_VISIBLE = int(ChunkKind.VISIBLE)

_KINDS: Final = {
    "response.output_text.delta": _VISIBLE,
    "response.refusal.delta": _VISIBLE,
    "response.function_call_arguments.delta": _VISIBLE,
    "response.mcp_call_arguments.delta": _VISIBLE,
    "response.custom_tool_call_input.delta": _VISIBLE,
    "response.code_interpreter_call_code.delta": _VISIBLE,
    "response.shell_call_command.delta": _VISIBLE,
    "response.audio.delta": _VISIBLE,
    "response.audio.transcript.delta": _VISIBLE,
    "response.reasoning_text.delta": _REASONING,
    "response.reasoning_summary_text.delta": _REASONING,
}
"""Events that contain a token if their ``delta`` is not empty."""

_KINDS_IN_BYTES: Final = {name.encode(): kind for name, kind in _KINDS.items()}

_REASONS: Final = {
    "completed": "stop",
    "failed": "error",
    "cancelled": "error",
    "max_output_tokens": "length",
}


def _kind_of(chunk: Any) -> int:
    try:
        kind = _KINDS.get(chunk.type)
        if kind is not None and chunk.delta:
            return kind
    except (AttributeError, TypeError):
        pass
    return _EMPTY


_TYPE: Final = re.compile(rb'"type"\s*:\s*"(response\.[a-z_.]+\.delta)"')
_DELTA: Final = re.compile(rb'"delta"\s*:\s*"(?!")')


def _kind_of_event(event: bytes) -> int:
    found = _TYPE.search(event)
    if found is None:
        return _EMPTY
    kind = _KINDS_IN_BYTES.get(found[1])
    return kind if kind is not None and _DELTA.search(event) else _EMPTY


_TEXTS: Final = ("output", "input", "instructions", "tools", "text", "metadata", "prompt")
"""Fields of a whole response that may be long; a response repeats most of its request."""


def _body_of(response: Any) -> Body:
    # An event about the whole response has it in `response`; a whole response has no such field.
    if not hasattr(response, "model_extra"):
        body = to_plain(response)
        whole = body.get("response")
        return cast("Body", whole) if isinstance(whole, dict) else body
    whole = getattr(response, "response", response)
    if hasattr(whole, "output"):
        return {
            **(fields_without(whole, *_TEXTS) or {}),
            "output": [_typed(each) for each in whole.output or ()],
        }
    kind = getattr(response, "type", None)
    if kind == "error":
        return fields_without(response) or {}
    item = getattr(response, "item", None)
    return {"type": kind} if item is None else {"type": kind, "item": _typed(item)}


def _typed(item: Any) -> Body:
    """Return the type of an item of a response, without its content."""
    return {"type": getattr(item, "type", None)}


_OF_THE_GENERATION: Final = frozenset({"usage", "error", "object"})
"""Fields that state how the generation ended, and not the call that fetches its response."""


def _fetched_body_of(response: Any) -> Body:
    # Usage and errors of the generation belong to the call that generated the response.
    body = _body_of(response)
    return {name: value for name, value in body.items() if name not in _OF_THE_GENERATION}


def _ended(bodies: Iterable[Body]) -> bool:
    return all_finished(_finish_reasons(bodies))


def _finish_reasons(bodies: Iterable[Body]) -> dict[int, str | None]:
    """Return the finish reason of the response, by the names that chat completions use."""
    reasons: dict[int, str | None] = {}
    for body in bodies:
        if "output" in body:
            reason = _reason_in(body)
            if reason is not None:
                return {0: reason}
        elif str(body.get("type")).startswith("response."):
            reasons[0] = None
    return reasons


def _reason_in(body: Body) -> str | None:
    """Return the finish reason of a whole response, ``None`` if it is still in progress."""
    status = body.get("status")
    if status == "incomplete":
        status = get_path(body, "incomplete_details", "reason") or status
    if not status or status in {"in_progress", "queued"}:
        return None
    if status == "completed" and any(item.get("type") in TOOL_CALLS for item in _items(body)):
        return "tool_calls"
    return _REASONS.get(str(status), str(status))


def _items(body: Body) -> list[dict[str, Any]]:
    """Return the items of a whole response, or the single item of an event."""
    item = body.get("item")
    return [cast("dict[str, Any]", item)] if isinstance(item, dict) else listed(body, "output")


_NAMED: Final = {"service_tier": semconv.OPENAI_RESPONSE_SERVICE_TIER}


def _attributes(bodies: Iterable[Body]) -> dict[str, str | int | bool]:
    bodies = tuple(bodies)
    attributes = {**identity_in(bodies), **named_in(bodies, _NAMED)}
    if any(item.get("type") == "compaction" for body in bodies for item in _items(body)):
        attributes[semconv.GEN_AI_CONVERSATION_COMPACTED] = True
    return attributes


def _fetched_attributes(bodies: Iterable[Body]) -> dict[str, str | int | bool]:
    bodies = tuple(body for body in bodies if "output" in body)
    return {
        **_attributes(bodies),
        **named_in(bodies, {"status": semconv.GEN_AI_RESPONSE_STATUS}),
    }


def _usage(bodies: Iterable[Body]) -> Usage | None:
    found: Body | None = None
    for body in bodies:
        found = body.get("usage") or found
    if found is None:
        return None
    return Usage(
        input=get_path(found, "input_tokens"),
        cached=get_path(found, "input_tokens_details", "cached_tokens"),
        cache_write=get_path(found, "input_tokens_details", "cache_write_tokens"),
        output=get_path(found, "output_tokens"),
        reasoning=get_path(found, "output_tokens_details", "reasoning_tokens"),
        total=get_path(found, "total_tokens"),
    )


_STREAM: Final = StreamFormat(
    opens=re.compile(rb'"type"\s*:\s*"response\.(?:created|queued)"'),
    classify_chunk=_kind_of_event,
    provider="openai",
    closes=re.compile(rb'"type"\s*:\s*"response\.(?:completed|failed|incomplete)"'),
)

OPENAI_RESPONSES: Final = ApiFormat(
    name="openai.responses",
    operation="chat",
    is_complete=_ended,
    finish_reasons=_finish_reasons,
    usage=_usage,
    classify_chunk=_kind_of,
    # An event that contains a token has no other fields to read.
    only_text=_kind_of,
    to_mapping=_body_of,
    content=OPENAI_RESPONSES_CONTENT,
    attributes=_attributes,
    stream=_STREAM,
)


def _bears_nothing(chunk: Any) -> int:
    del chunk
    return _EMPTY


OPENAI_RESPONSES_FETCHED: Final = replace(
    OPENAI_RESPONSES,
    name="openai.responses.fetched",
    operation=FETCH_RESPONSE,
    classify_chunk=_bears_nothing,
    only_text=None,
    to_mapping=_fetched_body_of,
    content=OPENAI_FETCHED_RESPONSES_CONTENT,
    attributes=_fetched_attributes,
    stream=replace(_STREAM, classify_chunk=_bears_nothing),
)
"""
Format of a stored response that is fetched again.

The tokens of such a response belong to the request that generated it.
"""
