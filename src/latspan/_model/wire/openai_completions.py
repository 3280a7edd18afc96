"""OpenAI's legacy text completions, which many model servers still support."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from latspan._model.wire._api_format import ApiFormat, ChunkKind, StreamFormat
from latspan._model.wire._body import Body
from latspan._model.wire._content import (
    Content,
    ContentShape,
    Fragment,
    FragmentKind,
    Message,
    message,
    parts_of,
    position_of,
    read,
)
from latspan._model.wire._fields import choices_requested
from latspan._model.wire.openai_chat import (
    attributes,
    body_of,
    continuous_usage,
    ended,
    finish_reasons,
    usage,
)

_EMPTY = int(ChunkKind.EMPTY)
_VISIBLE = int(ChunkKind.VISIBLE)

_TOKEN: Final = re.compile(rb'"text"\s*:\s*"(?!")')


def _kind_of(chunk: Any) -> int:
    try:
        for choice in chunk.choices:
            if choice.text:
                return _VISIBLE
    except (AttributeError, TypeError):
        pass
    return _EMPTY


def _only_text(chunk: Any) -> int:
    try:
        (choice,) = chunk.choices
        if choice.text and not choice.finish_reason:
            return _VISIBLE
    except (AttributeError, TypeError, ValueError):
        pass
    return _EMPTY


def _kind_of_event(event: bytes) -> int:
    return _VISIBLE if _TOKEN.search(event) else _EMPTY


def _request_content(body: Body) -> Content:
    prompt: object = body.get("prompt")
    prompts = cast("list[object]", prompt) if isinstance(prompt, list) else [prompt]
    return Content(input=tuple(_message(each) for each in prompts if each), is_chat=False)


def _message(prompt: object) -> Message:
    # A prompt may consist of token ids, whose text is not available without the tokenizer.
    return message("user", parts_of(prompt) if isinstance(prompt, str) else [{"type": "tokens"}])


def _fragments(response: Any) -> Iterator[Fragment]:
    for choice in read(response, "choices") or ():
        words = read(choice, "text")
        if isinstance(words, str) and words:
            yield Fragment(FragmentKind.TEXT, words, position_of(read(choice, "index")))


OPENAI_COMPLETIONS_CONTENT: Final = ContentShape(
    request_fields=("prompt",), request_content=_request_content, fragments=_fragments
)

OPENAI_COMPLETIONS: Final = ApiFormat(
    name="openai.completions",
    operation="text_completion",
    is_complete=ended,
    finish_reasons=finish_reasons,
    usage=usage,
    classify_chunk=_kind_of,
    only_text=_only_text,
    continuous_usage=continuous_usage,
    to_mapping=body_of,
    content=OPENAI_COMPLETIONS_CONTENT,
    attributes=attributes,
    choices_requested=choices_requested,
    stream=StreamFormat(
        opens=re.compile(
            rb'"object"\s*:\s*"text_completion"|"choices"\s*:\s*\[\s*\{[^{}]*"text"\s*:\s*"'
        ),
        classify_chunk=_kind_of_event,
        provider="openai",
    ),
)
