"""OpenAI's legacy text completions, which many model servers still support."""

from __future__ import annotations

import re
from typing import Any, Final

from latspan._wire._api_format import ApiFormat, ChunkKind, StreamFormat
from latspan._wire._fields import choices_requested
from latspan._wire._openai_completions_content import OPENAI_COMPLETIONS_CONTENT
from latspan._wire.openai_chat import (
    attributes,
    body_of,
    continuous_usage,
    ended,
    finish_reasons,
    usage,
)

__all__ = ["OPENAI_COMPLETIONS"]

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
