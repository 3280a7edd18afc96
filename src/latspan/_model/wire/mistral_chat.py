"""
Mistral's chat completions and code completions, read from the objects of its SDK.

The shape is OpenAI's, with three differences. An event of a stream holds its chunk in ``data``. The
content of a message may be a list of parts, some of which are reasoning. A field that the server
did not send holds a sentinel, which is false, or a default value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from latspan._model.wire._api_format import ChunkKind
from latspan._model.wire._body import Body, copied
from latspan._model.wire._content import ContentShape, Fragment
from latspan._model.wire._openai_chat_content import OPENAI_CHAT_CONTENT
from latspan._model.wire.openai_chat import OPENAI_CHAT, body_of, kind_of_content
from latspan._model.wire.openai_completions import OPENAI_COMPLETIONS_CONTENT

_EMPTY = int(ChunkKind.EMPTY)
_VISIBLE = int(ChunkKind.VISIBLE)


def _kind_of_delta(delta: Any) -> int:
    content = delta.content
    if content:
        kind = kind_of_content(content)
        if kind:
            return kind
    for call in delta.tool_calls or ():
        if call.function.arguments:
            return _VISIBLE
    return _EMPTY


def _kind_of(event: Any) -> int:
    try:
        for choice in event.data.choices:
            kind = _kind_of_delta(choice.delta)
            if kind:
                return kind
    except (AttributeError, TypeError):
        pass
    return _EMPTY


def _only_text(event: Any) -> int:
    try:
        (choice,) = event.data.choices
        if not choice.finish_reason:
            return _kind_of_delta(choice.delta)
    except (AttributeError, TypeError, ValueError):
        pass
    return _EMPTY


def _body_of(response: Any) -> Body:
    """Return the fields of an event or a completion except its text."""
    chunk = getattr(response, "data", response)
    body = {**body_of(chunk)}
    usage = getattr(chunk, "usage", None)
    if usage is not None:
        # The SDK sets the counts that the server did not report to 0; they are not counts.
        body["usage"] = copied(usage)
    return body


def _fragments(response: Any) -> Iterator[Fragment]:
    yield from OPENAI_CHAT_CONTENT.fragments(getattr(response, "data", response))


MISTRAL_CHAT: Final = replace(
    OPENAI_CHAT,
    name="mistral.chat",
    classify_chunk=_kind_of,
    only_text=_only_text,
    to_mapping=_body_of,
    content=replace(OPENAI_CHAT_CONTENT, fragments=_fragments),
)
"""Chat completions, and completions of an agent, which have the same shape."""

MISTRAL_FIM: Final = replace(
    MISTRAL_CHAT,
    name="mistral.fim",
    operation="text_completion",
    content=ContentShape(
        request_fields=OPENAI_COMPLETIONS_CONTENT.request_fields,
        request_content=OPENAI_COMPLETIONS_CONTENT.request_content,
        fragments=_fragments,
    ),
)
"""Completions of code between a prompt and a suffix ("fill in the middle")."""
