"""Where text stands in requests, answers and events of OpenAI responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from latspan.wire._body import Body
from latspan.wire._content import (
    Content,
    ContentShape,
    Fragment,
    FragmentKind,
    Message,
    listed,
    message,
    parts_of,
    read,
    text,
    tool,
    tool_call,
    tool_response,
)

__all__ = ["OPENAI_RESPONSES_CONTENT"]

_DELTAS: Final = {
    "response.output_text.delta": FragmentKind.TEXT,
    "response.refusal.delta": FragmentKind.TEXT,
    "response.audio.transcript.delta": FragmentKind.TEXT,
    "response.reasoning_text.delta": FragmentKind.REASONING,
    "response.reasoning_summary_text.delta": FragmentKind.REASONING,
    "response.function_call_arguments.delta": FragmentKind.TOOL_CALL,
    "response.mcp_call_arguments.delta": FragmentKind.TOOL_CALL,
    "response.custom_tool_call_input.delta": FragmentKind.TOOL_CALL,
}
"""The events whose ``delta`` is text, and what it is part of."""

_TOOL_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""The items that call a tool, and where their arguments stand."""

_TOOL_RESPONSES: Final = frozenset({"function_call_output", "custom_tool_call_output"})


def _asked(body: Body) -> Content:
    instructions = body.get("instructions")
    asked = body.get("input")
    if isinstance(asked, str):
        messages = (message("user", [text(asked)]),)
    else:
        messages = tuple(_message(item) for item in listed(body, "input"))
    return Content(
        system=tuple(parts_of(instructions)),
        input=messages,
        tools=tuple(tool(each) for each in listed(body, "tools")),
    )


def _message(item: Mapping[str, Any]) -> Message:
    kind = item.get("type") or "message"
    if kind == "message":
        return message(item.get("role"), parts_of(item.get("content")))
    if kind in _TOOL_CALLS:
        called = tool_call(
            id=item.get("call_id"),
            name=item.get("name"),
            arguments=item.get(_TOOL_CALLS[kind]),
        )
        return message("assistant", [called])
    if kind in _TOOL_RESPONSES:
        return message("tool", [tool_response(id=item.get("call_id"), response=item.get("output"))])
    if kind == "reasoning":
        thoughts = "".join(str(each.get("text") or "") for each in listed(item, "summary"))
        return message("assistant", [{"type": "reasoning", "content": thoughts}])
    return message("assistant", [{"type": kind}])


def _fragments(answer: Any) -> Iterator[Fragment]:
    kind = read(answer, "type")
    if kind in _DELTAS:
        delta = read(answer, "delta")
        if isinstance(delta, str):
            index = read(answer, "output_index")
            yield Fragment(_DELTAS[kind], delta, slot=index)
    elif kind == "response.output_item.added":
        # It says which tool is called; its arguments come after it.
        item = read(answer, "item")
        if read(item, "type") in _TOOL_CALLS:
            yield _tool_call(item, "", read(answer, "output_index"))
    elif kind is None:
        # A whole answer. The event that ends a stream holds one too, of which all was said.
        for index, item in enumerate(read(answer, "output") or ()):
            yield from _of_item(item, index)


def _of_item(item: Any, index: int) -> Iterator[Fragment]:
    kind = read(item, "type")
    if kind in _TOOL_CALLS:
        yield _tool_call(item, read(item, _TOOL_CALLS[kind]) or "", index)
    elif kind == "reasoning":
        for thought in (*(read(item, "content") or ()), *(read(item, "summary") or ())):
            yield Fragment(FragmentKind.REASONING, read(thought, "text") or "", slot=index)
    elif kind == "message":
        for part in read(item, "content") or ():
            words = read(part, "text") or read(part, "refusal")
            if words:
                yield Fragment(FragmentKind.TEXT, words, slot=index)


def _tool_call(item: Any, arguments: str, index: int) -> Fragment:
    return Fragment(
        FragmentKind.TOOL_CALL,
        arguments,
        slot=index,
        id=read(item, "call_id"),
        name=read(item, "name"),
    )


OPENAI_RESPONSES_CONTENT: Final = ContentShape(
    request_fields=("input", "instructions", "tools"), asked=_asked, fragments=_fragments
)
