"""Text in the requests and events of Amazon Bedrock: Converse, and the formats of the models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from latspan._model.wire._anthropic_messages_content import ANTHROPIC_MESSAGES_CONTENT
from latspan._model.wire._body import Body, to_plain
from latspan._model.wire._content import (
    Content,
    ContentShape,
    Fragment,
    FragmentKind,
    Part,
    listed,
    message,
    messages_in,
    position_of,
    read,
    reasoning,
    text,
    tool,
    tool_call,
    tool_response,
)
from latspan._model.wire._fields import sequence
from latspan._model.wire._media import blob
from latspan._model.wire._openai_chat_content import OPENAI_CHAT_CONTENT
from latspan._model.wire._usage import get_path, mapping


def _converse_content(body: Body) -> Content:
    return Content(
        system=tuple(_parts_of(body.get("system"))),
        input=tuple(
            message(role, _parts_of(each.get("content")))
            for role, each in messages_in(body, "messages")
        ),
        tools=tuple(_tools(mapping(body.get("toolConfig")))),
    )


def _tools(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for each in listed(config, "tools"):
        described = mapping(each.get("toolSpec"))
        if described:
            schema = get_path(described, "inputSchema", "json")
            yield tool({**described, "type": "function", "parameters": schema})


def _parts_of(content: Any) -> list[Part]:
    if isinstance(content, str):
        return [text(content)]
    return [part for each in sequence(content) if (part := _part(each)) is not None]


_TYPES: Final = {"document": "application"}
"""Main type of a media type by Bedrock's name of the block, if they differ."""


def _part(block: Any) -> Part | None:
    """Return the part for a content block, ``None`` for one without content, as a cache point."""
    if not isinstance(block, Mapping):
        return None
    block = cast("Mapping[str, Any]", block)
    if isinstance(block.get("text"), str):
        return text(block["text"])
    thought = get_path(block, "reasoningContent", "reasoningText", "text")
    if isinstance(thought, str):
        return reasoning(thought)
    call = block.get("toolUse")
    if isinstance(call, Mapping):
        arguments = get_path(block, "toolUse", "input")
        return tool_call(id=read(call, "toolUseId"), name=read(call, "name"), arguments=arguments)
    result = mapping(block.get("toolResult"))
    if result:
        response = [each.get("text", each.get("json")) for each in listed(result, "content")]
        whole = response[0] if len(response) == 1 else response
        return tool_response(id=result.get("toolUseId"), response=whole)
    for modality in ("image", "video", "document"):
        described = mapping(block.get(modality))
        if described:
            data = get_path(described, "source", "bytes")
            kind = f"{_TYPES.get(modality, modality)}/{described.get('format')}"
            return blob(modality, kind, data if isinstance(data, str) else "")
    return None


def _converse_fragments(response: Any) -> Iterator[Fragment]:
    begun, delta = read(response, "contentBlockStart"), read(response, "contentBlockDelta")
    output = read(read(response, "output"), "message")
    if delta is not None:
        yield from _of_delta(read(delta, "delta"), read(delta, "contentBlockIndex"))
    elif begun is not None:
        call = read(read(begun, "start"), "toolUse")
        if call is not None:
            slot, name = read(begun, "contentBlockIndex"), read(call, "name")
            called = read(call, "toolUseId")
            yield Fragment(FragmentKind.TOOL_CALL, "", slot=slot, id=called, name=name)
    elif output is not None:
        for position, block in enumerate(sequence(read(output, "content"))):
            part = _part(block)
            if part is not None:
                yield Fragment(FragmentKind.WHOLE, "", slot=position, part=part)


def _of_delta(delta: Any, slot: Any) -> Iterator[Fragment]:
    for kind, words in (
        (FragmentKind.TEXT, read(delta, "text")),
        (FragmentKind.TOOL_CALL, read(read(delta, "toolUse"), "input")),
        (FragmentKind.REASONING, read(read(delta, "reasoningContent"), "text")),
    ):
        if isinstance(words, str) and words:
            yield Fragment(kind, words, slot=slot)


BEDROCK_CONVERSE_CONTENT: Final = ContentShape(
    request_fields=("messages", "system", "toolConfig"),
    request_content=_converse_content,
    fragments=_converse_fragments,
)


def model_event(response: Any) -> Body | None:
    """
    Return the event in the model's format that a chunk holds, ``None`` for anything else.

    Args:
        response: A mapping as boto3 returns it, ``{"chunk": {"bytes": b"…"}}``, or the mapping of a
            message's text, ``{"chunk": {…}}``.
    """
    chunk: object = read(response, "chunk")
    if not isinstance(chunk, Mapping):
        return None
    event = cast("Body", chunk)
    coded = event.get("bytes")
    if isinstance(coded, bytes):
        return to_plain(coded)
    return event


def _invoke_content(body: Body) -> Content:
    """Return the content of a request in the format of the model, as far as it is known."""
    if "anthropic_version" in body:
        return ANTHROPIC_MESSAGES_CONTENT.request_content(body)
    messages = listed(body, "messages")
    if messages:
        # The blocks of Converse and Nova have no type.
        blocks = [block for each in messages for block in listed(each, "content")]
        if blocks and all("type" not in block for block in blocks):
            return _converse_content(body)
        return OPENAI_CHAT_CONTENT.request_content(body)
    prompt = body.get("prompt", body.get("inputText"))
    if not isinstance(prompt, str):
        return Content()
    return Content(input=(message("user", [text(prompt)]),), is_chat=False)


_TEXTS: Final = ("outputText", "generation", "text")
"""Fields that hold the text in the formats of Titan, Llama and Mistral."""


def _invoke_fragments(response: Any) -> Iterator[Fragment]:
    event = model_event(response)
    if event is None:
        event = to_plain(response)
    if isinstance(event.get("type"), str):
        yield from ANTHROPIC_MESSAGES_CONTENT.fragments(event)
        return
    yield from _converse_fragments(event)
    yield from OPENAI_CHAT_CONTENT.fragments(event)
    for each in (event, *listed(event, "choices"), *listed(event, "outputs")):
        for name in _TEXTS:
            words = each.get(name)
            if isinstance(words, str) and words:
                yield Fragment(FragmentKind.TEXT, words, position_of(each.get("index")))


BEDROCK_INVOKE_CONTENT: Final = ContentShape(
    request_fields=(
        "anthropic_version",
        "messages",
        "system",
        "tools",
        "toolConfig",
        "prompt",
        "inputText",
    ),
    request_content=_invoke_content,
    fragments=_invoke_fragments,
)
