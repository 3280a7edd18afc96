"""What a call's request and answer say in words, where somebody asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from latspan import _runtime, semconv
from latspan._request._said import Said
from latspan._runtime import Runtime
from latspan._spans import AttributeValue
from latspan.tokens import TokenSource
from latspan.wire import Content, ContentShape, Fragment, as_json, plain, said_in

__all__ = ["with_content"]


def with_content(
    said: Said,
    shape: ContentShape,
    *,
    request: Any,
    answer: Iterable[Any],
    runtime: Runtime,
    model: str | None,
    sampled: bool,
) -> Said:
    """
    Return what an answer said, with its words as attributes and its tokens counted, if asked for.

    Args:
        said: What it said beside its words.
        shape: Where text stands in requests and answers.
        request: What was asked: some of its fields, the bytes sent, or ``None``.
        answer: The answer: fragments, events as bytes, or the whole.
        runtime: What was asked for.
        model: The model asked for, where known.
        sampled: Whether anybody is to see the span.
    """
    with _runtime.guarded("reading what a call says"):
        fragments = tuple(chain.from_iterable(_fragments(shape, each) for each in answer))
        reasons = said.attributes.get(semconv.GEN_AI_RESPONSE_FINISH_REASONS, ())
        asked = shape.asked(plain(request))
        content = replace(asked, output=said_in(fragments, cast("tuple[str, ...]", reasons)))
        # Nothing was used up where nothing was answered.
        answered = bool(fragments) or said.ended
        if runtime.captures_content and sampled:
            said = said._replace(attributes={**said.attributes, **_attributes(content)})
        if runtime.count_tokens and answered and said.tokens.source is TokenSource.UNKNOWN:
            said = said._replace(tokens=runtime.count_tokens(content, model))
    return said


def _fragments(shape: ContentShape, each: Any) -> Iterable[Fragment]:
    return (each,) if isinstance(each, Fragment) else shape.fragments(plain(each))


def _attributes(content: Content) -> Mapping[str, AttributeValue]:
    said = {
        semconv.GEN_AI_SYSTEM_INSTRUCTIONS: content.system,
        semconv.GEN_AI_INPUT_MESSAGES: content.input,
        semconv.GEN_AI_OUTPUT_MESSAGES: content.output,
        semconv.GEN_AI_TOOL_DEFINITIONS: content.tools,
    }
    return {name: as_json(each) for name, each in said.items() if each}
