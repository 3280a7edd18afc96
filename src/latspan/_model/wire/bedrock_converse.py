"""
Amazon Bedrock's ``converse-stream``: events of one kind each, whatever the model.

boto3 returns an event as a mapping with the event's name as its key; the reader of binary messages
returns it as the same mapping in JSON. The event ``messageStop`` has the finish reason, and the
event ``metadata`` after it has the token counts and the time of the service.

Source: Amazon Bedrock API reference, ``ConverseStreamOutput`` and ``TokenUsage``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from latspan._model.wire._api_format import ApiFormat, ChunkKind, Framing, StreamFormat
from latspan._model.wire._bedrock_content import BEDROCK_CONVERSE_CONTENT
from latspan._model.wire._body import Body, copied
from latspan._model.wire._content import read
from latspan._model.wire._fields import finished, given, plain_or_object
from latspan._model.wire._usage import Usage, mapping
from latspan._model.wire.openai_chat import finish_reasons

_EMPTY = int(ChunkKind.EMPTY)
_REASONING = int(ChunkKind.REASONING)
_VISIBLE = int(ChunkKind.VISIBLE)

MODEL_IN_PATH: Final = re.compile(r"/model/([^/]+)/[a-z-]+$")
"""The model in the path of every Bedrock request: its id, or the ARN of an inference profile."""


def _kind_of(chunk: Any) -> int:
    delta = read(read(chunk, "contentBlockDelta"), "delta")
    if delta is None:
        return _EMPTY
    if read(delta, "text") or read(read(delta, "toolUse"), "input"):
        return _VISIBLE
    return _REASONING if read(read(delta, "reasoningContent"), "text") else _EMPTY


_TOKEN: Final = re.compile(
    rb"""
    "delta"\s*:\s*\{\s*"(?:
        text"\s*:\s*"(?!")()
      | toolUse"\s*:\s*\{\s*"input"\s*:\s*"(?!")()
      | reasoningContent"\s*:\s*\{\s*"text"\s*:\s*"(?!")
    )
    """,
    re.VERBOSE,
)
"""Fields that contain tokens. A group takes part in a match only for visible content."""


def _kind_of_event(event: bytes) -> int:
    found = _TOKEN.search(event)
    if found is None:
        return _EMPTY
    return _REASONING if found.lastindex is None else _VISIBLE


def body_of_event(response: Any) -> Body:
    """Return the fields of an event in the shape of a chat completion, ``{}`` for content."""
    if read(response, "messageStart") is not None:
        return {"choices": [finished(None)]}
    stop, metadata = read(response, "messageStop"), read(response, "metadata")
    if stop is not None:
        return {"choices": [finished(read(stop, "stopReason"))]}
    error = read(response, "error")
    if error is not None:
        return {"error": given(error, "type")}
    if metadata is None:
        return {}
    found = {name: copied(read(metadata, name), 2) for name in ("usage", "metrics")}
    return {name: value for name, value in found.items() if value is not None}


def _body_of(response: Any) -> Body:
    response = plain_or_object(response)
    output = read(response, "output")
    if output is None:
        return body_of_event(response)
    # A whole response has the fields of the last two events.
    return {**body_of_event({"metadata": response}), **body_of_event({"messageStop": response})}


def usage_of(bodies: Iterable[Body]) -> Usage | None:
    """
    Return the token counts.

    Bedrock's ``inputTokens`` excludes cached tokens; that of the conventions includes them.
    """
    found: Body = {}
    for body in bodies:
        found = mapping(body.get("usage")) or found
    if not found:
        return None
    cached, written = found.get("cacheReadInputTokens"), found.get("cacheWriteInputTokens")
    prompt = found.get("inputTokens")
    if isinstance(prompt, int):
        prompt += sum(part for part in (cached, written) if isinstance(part, int))
    return Usage(input=prompt, cached=cached, cache_write=written, output=found.get("outputTokens"))


BEDROCK_CONVERSE: Final = ApiFormat(
    name="bedrock.converse",
    operation="chat",
    finish_reasons=finish_reasons,
    usage=usage_of,
    classify_chunk=_kind_of,
    # An event that contains a token has no other fields to read.
    only_text=_kind_of,
    to_mapping=_body_of,
    content=BEDROCK_CONVERSE_CONTENT,
    stream=StreamFormat(
        opens=re.compile(rb'\A\{"messageStart":'),
        classify_chunk=_kind_of_event,
        provider="aws.bedrock",
        framing=Framing.MESSAGES,
        unmarked=True,
        model_in_path=MODEL_IN_PATH,
    ),
)
