"""Text in the requests and events of Cohere's ``/v2/chat``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from latspan._model.wire._body import Body
from latspan._model.wire._content import (
    Content,
    ContentShape,
    Fragment,
    FragmentKind,
    Message,
    listed,
    message,
    messages_in,
    parts_of,
    read,
    reasoning,
    tool,
    tool_call,
    tool_response,
)
from latspan._model.wire._fields import sequence
from latspan._model.wire._usage import mapping


def _request_content(body: Body) -> Content:
    return Content(
        input=tuple(_message(role, each) for role, each in messages_in(body, "messages")),
        tools=tuple(tool(each) for each in listed(body, "tools")),
    )


def _message(role: str, fields: Mapping[str, Any]) -> Message:
    content = fields.get("content")
    if role == "tool":
        return message(role, [tool_response(id=fields.get("tool_call_id"), response=content)])
    plan = fields.get("tool_plan")
    parts = [reasoning(plan)] if isinstance(plan, str) and plan else []
    for call in listed(fields, "tool_calls"):
        function = mapping(call.get("function"))
        name, arguments = function.get("name"), function.get("arguments")
        parts.append(tool_call(id=call.get("id"), name=name, arguments=arguments))
    return message(role, [*parts_of(content), *parts])


_CONTENT: Final = frozenset({"content-start", "content-delta"})
_CALLS: Final = frozenset({"tool-call-start", "tool-call-delta"})


def _fragments(response: Any) -> Iterator[Fragment]:
    kind, slot = read(response, "type"), read(response, "index")
    answer = read(read(response, "delta"), "message")
    if isinstance(kind, str):
        if kind in _CONTENT:
            yield from _of_content(read(answer, "content"), slot)
        elif kind in _CALLS:
            yield _of_call(read(answer, "tool_calls"), slot)
        elif kind == "tool-plan-delta":
            plan = read(answer, "tool_plan") or ""
            yield Fragment(FragmentKind.REASONING, plan, slot="tool_plan")
    elif kind is None:
        whole = read(response, "message")
        if plan := read(whole, "tool_plan"):
            yield Fragment(FragmentKind.REASONING, plan, slot="tool_plan")
        for position, block in enumerate(sequence(read(whole, "content"))):
            yield from _of_content(block, position)
        for position, call in enumerate(sequence(read(whole, "tool_calls"))):
            yield _of_call(call, position)


def _of_content(content: Any, slot: Any) -> Iterator[Fragment]:
    for kind, name in ((FragmentKind.REASONING, "thinking"), (FragmentKind.TEXT, "text")):
        words = read(content, name)
        if isinstance(words, str) and words:
            yield Fragment(kind, words, slot=slot)


def _of_call(call: Any, slot: Any) -> Fragment:
    function = read(call, "function")
    arguments, name = read(function, "arguments") or "", read(function, "name")
    return Fragment(FragmentKind.TOOL_CALL, arguments, slot=slot, id=read(call, "id"), name=name)


COHERE_CHAT_CONTENT: Final = ContentShape(
    request_fields=("messages", "tools"), request_content=_request_content, fragments=_fragments
)
