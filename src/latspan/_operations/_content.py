"""Content of a call's request and response, if the configuration captures or counts it."""

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
    Return the summary of a response with its content and counted tokens, if configured.

    Args:
        said: Summary of the response, without its content.
        shape: Location of the text in requests and responses.
        request: Some fields of the request, the bytes sent, or ``None``.
        answer: Response: fragments, events as bytes, or the complete response.
        runtime: The active runtime, which holds the content settings.
        model: Requested model, ``None`` if unknown.
        sampled: Whether the span is sampled.
    """
    asked, fragments, output = Content(), tuple[Fragment, ...](), tuple[Message, ...]()
    with _runtime.handle_internal_errors("reading what a call asks"):
        asked = shape.asked(plain(request))
    with _runtime.handle_internal_errors("reading what a call is answered"):
        fragments = tuple(chain.from_iterable(_fragments(shape, each) for each in answer))
        output = output_messages(fragments, said.known_reasons)
    with _runtime.handle_internal_errors("the content of a call"):
        content = replace(asked, output=output)
        # Without a response no tokens were used.
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
"""Span attributes of a call's content, each with the field of ``Content`` that it holds."""


def _named(content: Content) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the parts of a call's content that are not empty, by attribute."""
    named = {name: getattr(content, field) for name, field in _CONTENT.items()}
    return {name: each for name, each in named.items() if each}


INFERENCES: Final = frozenset({"chat", "text_completion"})
"""Operations in which a model generates output; an event may be emitted for each."""

_CONVENTIONS: Final = ("gen_ai.", "openai.", "server.", "error.")


def details(
    attributes: Mapping[str, AttributeValue], content: Content | None, runtime: Runtime
) -> dict[str, Any]:
    """
    Return the attributes of the event that describes an inference.

    Args:
        attributes: Attributes of the span. Those of the conventions are copied to the event,
            except the content, which an event holds as data and not as text.
        content: Content of the request and the response, ``None`` if events do not capture it.
        runtime: The active runtime, which holds the content settings.

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
