"""Text in the requests, responses and events of Anthropic messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from latspan._model.wire._body import Body
from latspan._model.wire._content import (
    Content,
    ContentShape,
    Fragment,
    FragmentKind,
    compaction,
    dumped,
    listed,
    message,
    messages_in,
    parts_of,
    read,
    server_tool_in,
    tool,
)
from latspan._model.wire._serialized import written

_DELTAS: Final = {
    "text_delta": ("text", FragmentKind.TEXT),
    "thinking_delta": ("thinking", FragmentKind.REASONING),
    "input_json_delta": ("partial_json", FragmentKind.TOOL_CALL),
}
"""By type of delta: the field that holds its text, and the kind of part it belongs to."""


def _request_content(body: Body) -> Content:
    return Content(
        system=tuple(part for part in parts_of(body.get("system")) if part.get("content")),
        input=tuple(
            message(role, parts_of(each.get("content")))
            for role, each in messages_in(body, "messages")
        ),
        # Anthropic's own tools have a type that includes a version, and no schema.
        tools=tuple(tool(each) for each in listed(body, "tools")),
    )


def _fragments(response: Any) -> Iterator[Fragment]:
    kind = read(response, "type")
    if kind == "content_block_delta":
        delta = read(response, "delta")
        field, part = _DELTAS.get(read(delta, "type"), (None, None))
        if field is not None and part is not None:
            yield Fragment(part, read(delta, field) or "", slot=read(response, "index"))
    elif kind == "content_block_start":
        # This event names a tool. Its other fields are empty; their content arrives in deltas.
        yield from _of_block(read(response, "content_block"), read(response, "index"), begun=True)
    elif kind == "message":
        for index, block in enumerate(read(response, "content") or ()):
            yield from _of_block(block, index)


def _of_block(block: Any, index: int, *, begun: bool = False) -> Iterator[Fragment]:
    kind = read(block, "type")
    if kind == "text":
        yield Fragment(FragmentKind.TEXT, read(block, "text") or "", slot=index)
    elif kind == "thinking":
        yield Fragment(FragmentKind.REASONING, read(block, "thinking") or "", slot=index)
    elif kind == "tool_use":
        yield Fragment(
            FragmentKind.TOOL_CALL,
            "" if begun else written(read(block, "input")),
            slot=index,
            id=read(block, "id"),
            name=read(block, "name"),
        )
    elif kind == "compaction":
        yield Fragment(FragmentKind.WHOLE, "", slot=index, part=compaction(dumped(block)))
    else:
        part = server_tool_in(dumped(block))
        if part is not None:
            yield Fragment(FragmentKind.TOOL_CALL, "", slot=index, part=part)


ANTHROPIC_MESSAGES_CONTENT: Final = ContentShape(
    request_fields=("messages", "system", "tools"),
    request_content=_request_content,
    fragments=_fragments,
)
