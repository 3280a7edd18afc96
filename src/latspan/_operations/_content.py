"""What a call's request and answer say in words, where somebody asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from latspan import _runtime, semconv
from latspan._operations._response_summary import ResponseSummary
from latspan._runtime import Runtime
from latspan._spans import AttributeValue, encodable, encodable_data
from latspan._tokens import TokenSource
from latspan._wire import (
    Content,
    ContentShape,
    Fragment,
    Message,
    as_data,
    as_json,
    events_in,
    output_messages,
    plain,
)

__all__ = ["INFERENCES", "details", "with_content"]


def with_content(
    said: ResponseSummary,
    shape: ContentShape,
    *,
    request: Any,
    answer: Iterable[Any],
    runtime: Runtime,
    model: str | None,
    sampled: bool,
) -> ResponseSummary:
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
    asked, fragments, output = Content(), tuple[Fragment, ...](), tuple[Message, ...]()
    with _runtime.handle_internal_errors("reading what a call asks"):
        asked = shape.asked(plain(request))
    with _runtime.handle_internal_errors("reading what a call is answered"):
        fragments = tuple(chain.from_iterable(_fragments(shape, each) for each in answer))
        output = output_messages(fragments, said.known_reasons)
    with _runtime.handle_internal_errors("the content of a call"):
        content = replace(asked, output=output)
        # Nothing was used up where nothing was answered.
        answered = bool(fragments) or said.ended
        if runtime.captures_content and sampled:
            named = {
                name: as_json(each, media=runtime.captures_media)
                for name, each in _named(content).items()
            }
            said = said._replace(attributes={**said.attributes, **named})
        if runtime.captures_in_events:
            said = said._replace(content=content)
        if runtime.count_tokens and answered and said.tokens.source is TokenSource.UNKNOWN:
            said = said._replace(tokens=runtime.count_tokens(content, model))
    return said


def _fragments(shape: ContentShape, each: Any) -> Iterable[Fragment]:
    if isinstance(each, Fragment):
        return (each,)
    parts = events_in(each) if isinstance(each, bytes) else (each,)
    return chain.from_iterable(shape.fragments(plain(part)) for part in parts)


_CONTENT: Final = {
    semconv.GEN_AI_SYSTEM_INSTRUCTIONS: "system",
    semconv.GEN_AI_INPUT_MESSAGES: "input",
    semconv.GEN_AI_OUTPUT_MESSAGES: "output",
    semconv.GEN_AI_TOOL_DEFINITIONS: "tools",
}
"""The attributes that hold a call's content, and what of it each holds."""


def _named(content: Content) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return what there is of a call's content, by attribute."""
    named = {name: getattr(content, field) for name, field in _CONTENT.items()}
    return {name: each for name, each in named.items() if each}


INFERENCES: Final = frozenset({"chat", "text_completion"})
"""The operations in which a model generates something; of each there may be an event."""

_CONVENTIONS: Final = ("gen_ai.", "openai.", "server.", "error.")


def details(
    attributes: Mapping[str, AttributeValue], content: Content | None, runtime: Runtime
) -> dict[str, Any]:
    """
    Return the attributes of the event that describes an inference.

    Args:
        attributes: Those of its span; the conventions' are the event's too, but for the content,
            which an event has as data and not as text.
        content: What was asked and answered, ``None`` if events leave that out.
        runtime: What was asked for.

    Source: OpenTelemetry GenAI conventions, ``gen_ai.client.inference.operation.details``.
    """
    told = {
        name: value
        for name, value in attributes.items()
        if name.startswith(_CONVENTIONS) and name not in _CONTENT
    }
    said: dict[str, Any] = {**encodable(told)}
    if content is not None:
        for name, each in _named(content).items():
            said[name] = encodable_data(as_data(each, media=runtime.captures_media))
    return said
