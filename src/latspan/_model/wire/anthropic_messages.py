"""
Anthropic messages: typed events, the first of which has the model and the prompt's token count.

Chunks are SDK models, so their fields are read as attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from latspan._model.wire._anthropic_messages_content import ANTHROPIC_MESSAGES_CONTENT
from latspan._model.wire._api_format import ApiFormat, ChunkKind, StreamFormat, all_finished
from latspan._model.wire._body import Body, fields_without, to_plain
from latspan._model.wire._usage import Usage, get_path

_EMPTY = int(ChunkKind.EMPTY)
_REASONING = int(ChunkKind.REASONING)
_VISIBLE = int(ChunkKind.VISIBLE)

_BEARS: Final = {
    "text_delta": ("text", _VISIBLE),
    "input_json_delta": ("partial_json", _VISIBLE),
    "thinking_delta": ("thinking", _REASONING),
}
"""
By type of delta: the field that contains tokens, and their kind.

A ``compaction_delta`` is text too, but it belongs to a request made by the server itself: its
tokens do not count as the message's.
"""


_OF_A_BLOCK: Final = frozenset({"content_block_start", "content_block_delta", "content_block_stop"})


def _kind_of(chunk: Any) -> int:
    try:
        if chunk.type != "content_block_delta":
            return _EMPTY
        delta = chunk.delta
        field, kind = _BEARS[delta.type]
        return kind if getattr(delta, field) else _EMPTY
    except (AttributeError, KeyError, TypeError):
        return _EMPTY


# The start of a block has these fields too, but empty. A whole message has them as well, but its
# event is not a `content_block_delta`.
_TOKEN: Final = re.compile(rb'"(?:(text|partial_json)|thinking)"\s*:\s*"(?!")')
_DELTA: Final = re.compile(rb'"type"\s*:\s*"content_block_delta"')


def _kind_of_event(event: bytes) -> int:
    if not _DELTA.search(event):
        return _EMPTY
    found = _TOKEN.search(event)
    if found is None:
        return _EMPTY
    return _VISIBLE if found[1] else _REASONING


def _body_of(response: Any) -> Body:
    """Return the fields of an event or a whole message, both in the shape of a message."""
    kind = getattr(response, "type", None)
    if kind in _OF_A_BLOCK:
        # These events contain only text.
        return {}
    message = response.message if kind == "message_start" else response
    body = fields_without(message, "content")
    return _of_event(to_plain(response) if body is None else body)


def _of_event(body: Body) -> Body:
    message = body.get("message")
    if body.get("type") == "message_start" and isinstance(message, dict):
        return cast("Body", message)
    delta = body.get("delta")
    if body.get("type") == "message_delta" and isinstance(delta, Mapping):
        return {**cast("Body", delta), "usage": body.get("usage")}
    return body


def _ended(bodies: Iterable[Body]) -> bool:
    return all_finished(_finish_reasons(bodies))


def _finish_reasons(bodies: Iterable[Body]) -> dict[int, str | None]:
    reasons: dict[int, str | None] = {}
    for body in bodies:
        reason = body.get("stop_reason")
        if reason or "role" in body:
            reasons[0] = str(reason) if reason else reasons.get(0)
    return reasons


_COUNTED_LAST: Final = frozenset({"output_tokens", "output_tokens_details"})
"""Counts in the usage at the start of a message that are final only at its end."""


def _usage(bodies: Iterable[Body]) -> Usage | None:
    """
    Return the token counts; later counts are cumulative.

    The output count at the start of a message is ignored: it does not reflect the output.
    Anthropic's ``input_tokens`` excludes cached tokens; that of the conventions includes them.
    """
    counted: dict[str, Any] = {}
    for body in bodies:
        usage: object = body.get("usage")
        if not isinstance(usage, Mapping):
            continue
        over = bool(body.get("stop_reason"))
        counted |= {
            name: value
            for name, value in cast("Mapping[str, Any]", usage).items()
            if value is not None and (over or name not in _COUNTED_LAST)
        }
    if not counted:
        return None
    cached, written = (
        counted.get("cache_read_input_tokens"),
        counted.get("cache_creation_input_tokens"),
    )
    parts = (counted.get("input_tokens"), cached, written)
    counts = [part for part in parts if isinstance(part, int)]
    return Usage(
        input=sum(counts) if isinstance(parts[0], int) else None,
        cached=cached,
        cache_write=written,
        output=counted.get("output_tokens"),
        reasoning=get_path(counted, "output_tokens_details", "thinking_tokens"),
    )


ANTHROPIC_MESSAGES: Final = ApiFormat(
    name="anthropic.messages",
    operation="chat",
    is_complete=_ended,
    finish_reasons=_finish_reasons,
    usage=_usage,
    classify_chunk=_kind_of,
    # An event that contains a token has no other fields to read.
    only_text=_kind_of,
    to_mapping=_body_of,
    content=ANTHROPIC_MESSAGES_CONTENT,
    stream=StreamFormat(
        opens=re.compile(rb'"type"\s*:\s*"(?:message_start|error)"'),
        classify_chunk=_kind_of_event,
        provider="anthropic",
        closes=re.compile(rb'"type"\s*:\s*"(?:message_stop|error)"'),
    ),
)
