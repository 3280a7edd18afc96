"""
Amazon Bedrock's ``invoke-with-response-stream``: each ``chunk`` has an event in the model's format.

Read are the formats of Anthropic's messages, Amazon's Nova (which sends the events of Converse) and
Titan, Meta's Llama, and Mistral and others that send choices. The last chunk also has Bedrock's
``amazon-bedrock-invocationMetrics``, with token counts and latencies.

Chunks of other models than Anthropic's are parsed, because their formats differ.

Source: Amazon Bedrock user guide, "Inference request parameters and response fields for foundation
models". The invocation metrics are not documented; their names are from recorded responses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

from latspan._model.wire._api_format import (
    ApiFormat,
    ChunkKind,
    Framing,
    StreamFormat,
    all_finished,
)
from latspan._model.wire._bedrock_content import BEDROCK_INVOKE_CONTENT, model_event
from latspan._model.wire._body import Body, copied
from latspan._model.wire._content import FragmentKind, listed, read
from latspan._model.wire._fields import finished, given, plain_or_object
from latspan._model.wire._usage import Usage, mapping
from latspan._model.wire.anthropic_messages import ANTHROPIC_MESSAGES
from latspan._model.wire.bedrock_converse import (
    BEDROCK_CONVERSE,
    MODEL_IN_PATH,
    body_of_event,
    usage_of,
)
from latspan._model.wire.openai_chat import finish_reasons
from latspan._model.wire.openai_chat import usage as openai_usage
from latspan._model.wire.server_timing import as_number

_EMPTY = int(ChunkKind.EMPTY)
_REASONING = int(ChunkKind.REASONING)
_VISIBLE = int(ChunkKind.VISIBLE)

_METRICS: Final = "amazon-bedrock-invocationMetrics"

_COUNTS: Final = {
    "x-amzn-bedrock-input-token-count": "inputTokenCount",
    "x-amzn-bedrock-output-token-count": "outputTokenCount",
}
"""Names of the token counts in the metrics, by header."""

_REASONS: Final = ("stop_reason", "completionReason", "finish_reason")
"""Names of the finish reason in the formats of the models."""


def _kind_of(chunk: Any) -> int:
    most = _EMPTY
    try:
        for fragment in BEDROCK_INVOKE_CONTENT.fragments(chunk):
            if fragment.text:
                if fragment.kind is not FragmentKind.REASONING:
                    return _VISIBLE
                most = _REASONING
    except (AttributeError, TypeError):
        pass
    return most


_kind_of_anthropic: Final = cast("StreamFormat", ANTHROPIC_MESSAGES.stream).classify_chunk


def _kind_of_event(event: bytes) -> int:
    # Most invoked models are Anthropic's, whose tokens a pattern finds in a tenth of the time.
    return _kind_of_anthropic(event) or _kind_of(plain_or_object(event))


def _body_of(response: Any) -> Body:
    response = plain_or_object(response)
    metadata = read(response, "ResponseMetadata")
    if metadata is not None:
        return _of_headers(read(metadata, "HTTPHeaders"))
    event = model_event(response)
    if event is None:
        return body_of_event(response) or _of_whole(mapping(response))
    body = {**_fields_of(event)}
    metrics = event.get(_METRICS)
    if metrics is not None:
        body[_METRICS] = copied(metrics, 2)
    return body


def _of_headers(headers: Any) -> Body:
    """
    Return the metrics in the headers of ``InvokeModel``, which boto3 has in its result.

    The body of a response in the formats of some models has no token counts.
    """
    counts = {name: as_number(str(read(headers, header))) for header, name in _COUNTS.items()}
    found = {name: int(count) for name, count in counts.items() if count is not None}
    return {_METRICS: found} if found else {}


def _of_whole(response: Body) -> Body:
    """Return the fields of a response that is not streamed, in the format of any model."""
    if "output" in response:
        # Nova responds as Converse does.
        return BEDROCK_CONVERSE.to_mapping(response)
    results = listed(response, "results")
    reasons = {"choices": [finished(_reason_in(each)) for each in results]} if results else {}
    return {**_fields_of(response), **reasons}


def _fields_of(event: Body) -> Body:
    """Return the fields of an event of any model in the shape of a chat completion."""
    if isinstance(event.get("type"), str):
        return _of_anthropic(event)
    body = body_of_event(event)
    if body:
        return body
    choices = listed(event, "choices") or listed(event, "outputs")
    found = [finished(_reason_in(each), each.get("index")) for each in choices]
    if not found and (reason := _reason_in(event)) is not None:
        found = [finished(reason)]
    usage = {"usage": copied(event["usage"], 3)} if event.get("usage") else {}
    chosen = {"choices": found} if found else {}
    return {**given(event, "id", "model"), **chosen, **usage}


def _of_anthropic(event: Body) -> Body:
    if str(event["type"]).startswith("content_block"):
        return {}
    body = ANTHROPIC_MESSAGES.to_mapping(event)
    kept = {**given(body, "type", "id", "model", "stop_reason")}
    for name in ("usage", "error"):
        if body.get(name):
            kept[name] = copied(body[name], 3)
    if "stop_reason" in body:
        kept["choices"] = [finished(body["stop_reason"])]
    return kept


def _reason_in(fields: Body) -> object:
    return next((fields[name] for name in _REASONS if fields.get(name)), None)


def _ended(bodies: Iterable[Body]) -> bool:
    bodies = tuple(bodies)
    # Not every format has a finish reason; the metrics come with the last chunk.
    return any(_METRICS in body for body in bodies) or all_finished(finish_reasons(bodies))


def _usage(bodies: Iterable[Body]) -> Usage | None:
    """Return the token counts of the model's format, or those of Bedrock's metrics."""
    bodies = tuple(bodies)
    named = frozenset[str]().union(*(mapping(body.get("usage")) for body in bodies))
    if "input_tokens" in named:
        # In the metrics too, Anthropic's input excludes cached tokens.
        return ANTHROPIC_MESSAGES.usage(bodies)
    if "inputTokens" in named:
        return usage_of(bodies)
    if "prompt_tokens" in named:
        return openai_usage(bodies)
    for body in reversed(bodies):
        metrics = mapping(body.get(_METRICS))
        if metrics:
            return Usage(
                input=metrics.get("inputTokenCount"), output=metrics.get("outputTokenCount")
            )
    return None


BEDROCK_INVOKE: Final = ApiFormat(
    name="bedrock.invoke",
    operation="chat",
    is_complete=_ended,
    finish_reasons=finish_reasons,
    usage=_usage,
    classify_chunk=_kind_of,
    to_mapping=_body_of,
    content=BEDROCK_INVOKE_CONTENT,
    stream=StreamFormat(
        # An agent of Bedrock streams `chunk` too, but its bytes are text and not an event.
        opens=re.compile(
            rb'\A\{"chunk":\s*\{(?=.*?"(?:type"\s*:\s*"(?:message_start|ping|error)"|'
            rb'(?:outputText|generation|outputs|choices|messageStart)"\s*:))',
            re.DOTALL,
        ),
        classify_chunk=_kind_of_event,
        provider="aws.bedrock",
        framing=Framing.MESSAGES,
        unmarked=True,
        model_in_path=MODEL_IN_PATH,
    ),
)
