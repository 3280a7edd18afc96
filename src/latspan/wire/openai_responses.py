"""
OpenAI responses: typed events, of which the last one holds the whole answer.

Chunks are read by attribute, as the SDK's models give them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, cast

from latspan.wire._body import Body, plain
from latspan.wire._chunk import ChunkKind
from latspan.wire._dialect import Dialect, Stream
from latspan.wire._openai_responses_content import OPENAI_RESPONSES_CONTENT
from latspan.wire._usage import Usage, at

__all__ = ["OPENAI_RESPONSES", "OPENAI_RESPONSES_FETCHED"]

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
"""The events that bear a token, if their ``delta`` is not empty."""

_KINDS_IN_BYTES: Final = {name.encode(): kind for name, kind in _KINDS.items()}

_REASONS: Final = {"completed": "stop", "failed": "error", "max_output_tokens": "length"}


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


def _body_of(answer: Any) -> Body:
    body = plain(answer)
    # An event that tells of the whole answer holds it; a whole answer is that itself.
    whole = body.get("response")
    return cast("Body", whole) if isinstance(whole, dict) else body


def _ended(bodies: Iterable[Body]) -> bool:
    return bool(_finish_reasons(bodies))


def _finish_reasons(bodies: Iterable[Body]) -> tuple[str, ...]:
    """Return why the answer ended, in the words that chat completions have for it."""
    for body in reversed(tuple(bodies)):
        if "output" not in body:
            continue
        status = body.get("status")
        if status == "incomplete":
            status = at(body, "incomplete_details", "reason") or status
        if not status or status in {"in_progress", "queued"}:
            continue
        return (_REASONS.get(str(status), str(status)),)
    return ()


def _usage(bodies: Iterable[Body]) -> Usage | None:
    found: Body | None = None
    for body in bodies:
        found = body.get("usage") or found
    if found is None:
        return None
    return Usage(
        input=at(found, "input_tokens"),
        cached=at(found, "input_tokens_details", "cached_tokens"),
        cache_write=at(found, "input_tokens_details", "cache_write_tokens"),
        output=at(found, "output_tokens"),
        reasoning=at(found, "output_tokens_details", "reasoning_tokens"),
        total=at(found, "total_tokens"),
    )


_STREAM: Final = Stream(
    opens=re.compile(rb'"type"\s*:\s*"response\.(?:created|queued)"'),
    kind_of=_kind_of_event,
    provider="openai",
    closes=re.compile(rb'"type"\s*:\s*"response\.(?:completed|failed|incomplete)"'),
)

OPENAI_RESPONSES: Final = Dialect(
    name="openai.responses",
    operation="chat",
    ended=_ended,
    finish_reasons=_finish_reasons,
    usage=_usage,
    kind_of=_kind_of,
    body_of=_body_of,
    content=OPENAI_RESPONSES_CONTENT,
    stream=_STREAM,
)


def _bears_nothing(chunk: Any) -> int:
    del chunk
    return _EMPTY


def _uses_nothing(bodies: Iterable[Body]) -> None:
    del bodies


OPENAI_RESPONSES_FETCHED: Final = replace(
    OPENAI_RESPONSES,
    name="openai.responses.fetched",
    operation="fetch_response",
    usage=_uses_nothing,
    kind_of=_bears_nothing,
    content=None,
    stream=replace(_STREAM, kind_of=_bears_nothing),
)
"""
The same answer, read once more: its tokens belong to the request that it was generated for.

Source: OpenTelemetry GenAI conventions, ``gen_ai.operation.name``, ``fetch_response``.
"""
