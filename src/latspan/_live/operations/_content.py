"""Content of a call's request and response, if the configuration captures or counts it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from latspan import semconv
from latspan._base.internal_errors import handle_internal_errors
from latspan._live.operations._response_summary import ResponseSummary
from latspan._live.otel.spans import AttributeValue, encodable, encodable_data
from latspan._live.process.runtime import Runtime
from latspan._model.tokens import TokenSource
from latspan._model.wire import (
    Content,
    ContentShape,
    Fragment,
    FragmentKind,
    Message,
    as_data,
    as_json,
    events_in,
    output_messages,
    to_plain,
)


def with_content(
    summary: ResponseSummary,
    shape: ContentShape,
    *,
    request: Any,
    response: Iterable[Any],
    runtime: Runtime,
    model: str | None,
    sampled: bool,
    default_reason: str | None = None,
) -> ResponseSummary:
    """
    Return the summary of a response with its content and counted tokens, if configured.

    Args:
        summary: Summary of the response, without its content.
        shape: Location of the text in requests and responses.
        request: Some fields of the request, the bytes sent, or ``None``.
        response: Response: fragments, events as bytes, or the complete response.
        runtime: The active runtime, which holds the content settings.
        model: Requested model, ``None`` if unknown.
        sampled: Whether the span is sampled.
        default_reason: Finish reason of the messages whose own reason did not arrive; ``None`` if
            they have none.
    """
    input_content, fragments, output = Content(), tuple[Fragment, ...](), tuple[Message, ...]()
    with handle_internal_errors("reading the request of a call"):
        input_content = shape.request_content(to_plain(request))
    with handle_internal_errors("reading the response of a call"):
        fragments = tuple(chain.from_iterable(_fragments(shape, each) for each in response))
        if not shape.is_generated:
            repeated = tuple(each for each in fragments if each.kind is FragmentKind.SYSTEM)
            fragments = tuple(each for each in fragments if each.kind is not FragmentKind.SYSTEM)
            system = tuple(each.part for each in repeated if each.part is not None)
            input_content = replace(input_content, system=system)
        output = output_messages(fragments, summary.known_reasons, default_reason=default_reason)
    with handle_internal_errors("the content of a call"):
        content = replace(input_content, output=output)
        # Without a response, no tokens were used.
        has_output = bool(fragments) or summary.ended
        if runtime.captures_content and sampled:
            named = {
                name: as_json(each, media=runtime.captures_media)
                for name, each in _named(content).items()
            }
            summary = summary._replace(attributes={**summary.attributes, **named})
        if runtime.captures_in_events:
            summary = summary._replace(content=content)
        counts = runtime.count_tokens if shape.is_generated else None
        if counts and has_output and summary.tokens.source is TokenSource.UNKNOWN:
            summary = summary._replace(tokens=counts(content, model))
    return summary


def _fragments(shape: ContentShape, each: Any) -> Iterable[Fragment]:
    if isinstance(each, Fragment):
        return (each,)
    parts = events_in(each) if isinstance(each, bytes) else (each,)
    return chain.from_iterable(shape.fragments(to_plain(part)) for part in parts)


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
    copied = {
        name: value
        for name, value in attributes.items()
        if name.startswith(_CONVENTIONS) and name not in _CONTENT
    }
    data: dict[str, Any] = {**encodable(copied)}
    if content is not None:
        for name, each in _named(content).items():
            data[name] = encodable_data(as_data(each, media=runtime.captures_media))
    return data
