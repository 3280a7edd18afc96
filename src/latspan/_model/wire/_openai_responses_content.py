"""Text in the requests, responses and events of the OpenAI Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from latspan._model.wire._body import Body
from latspan._model.wire._content import (
    Content,
    ContentShape,
    Fragment,
    FragmentKind,
    Message,
    Part,
    compaction,
    dumped,
    listed,
    message,
    parts_of,
    read,
    server_tool_call,
    server_tool_response,
    text,
    tool,
    tool_call,
    tool_response,
)
from latspan._model.wire._media import blob
from latspan._model.wire._serialized import written

_DELTAS: Final = {
    "response.output_text.delta": FragmentKind.TEXT,
    "response.refusal.delta": FragmentKind.TEXT,
    "response.audio.transcript.delta": FragmentKind.TEXT,
    "response.reasoning_text.delta": FragmentKind.REASONING,
    "response.reasoning_summary_text.delta": FragmentKind.REASONING,
    "response.function_call_arguments.delta": FragmentKind.TOOL_CALL,
    "response.custom_tool_call_input.delta": FragmentKind.TOOL_CALL,
}
"""Events whose ``delta`` is text, and the kind of part that it belongs to."""

_STREAMED_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items whose arguments arrive in separate events, and the item's field for the arguments."""

TOOL_CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    **{kind: (field,) for kind, field in _STREAMED_CALLS.items()},
    "apply_patch_call": ("operation",),
    "computer_call": ("action", "actions"),
    "local_shell_call": ("action",),
}
"""Items that call one of the caller's tools, and the fields that hold its arguments."""

_SERVER_TOOLS: Final = {
    "code_interpreter_call": "code_interpreter",
    "file_search_call": "file_search",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcp_list_tools",
    "tool_search_call": "tool_search",
    "web_search_call": "web_search",
}
"""Items that call one of OpenAI's own tools, and the name of the tool."""

_SERVER_ANSWERS: Final = {"tool_search_output": "tool_search"}


def _request_content(body: Body) -> Content:
    instructions = body.get("instructions")
    given = body.get("input")
    if isinstance(given, str):
        messages = (message("user", [text(given)]),)
    else:
        messages = tuple(
            read for item in listed(body, "input") if (read := _message(item)) is not None
        )
    return Content(
        system=tuple(part for part in parts_of(instructions) if part.get("content")),
        input=messages,
        tools=tuple(tool(each) for each in listed(body, "tools")),
    )


def _message(item: Mapping[str, Any]) -> Message | None:
    """Return an item as a message, ``None`` if the item has no readable content."""
    kind = str(item.get("type") or "message")
    if kind == "message":
        role = item.get("role")
        return message(role, parts_of(item.get("content"))) if isinstance(role, str) else None
    if kind in TOOL_CALLS:
        return message("assistant", [_called(kind, item)])
    if kind.endswith("_output") and kind not in _SERVER_ANSWERS:
        return message("tool", [tool_response(id=_id_of(item), response=item.get("output"))])
    if kind == "reasoning":
        thoughts = [{"type": "reasoning", "content": words} for words, _ in _thoughts(item)]
        return message("assistant", thoughts) if thoughts else None
    return message("assistant", _whole_parts(item) or [{"type": kind}])


def _called(kind: str, item: Mapping[str, Any]) -> Part:
    return tool_call(id=_id_of(item), name=_name_of(kind, item), arguments=_arguments(kind, item))


def _name_of(kind: str, item: Any) -> Any:
    return read(item, "name") if kind in _STREAMED_CALLS else kind.removesuffix("_call")


def _arguments(kind: str, item: Any) -> Any:
    field = _STREAMED_CALLS.get(kind)
    if field is not None:
        return read(item, field)
    fields = dumped(item)
    return {name: fields[name] for name in TOOL_CALLS[kind] if name in fields}


def _id_of(item: Any) -> Any:
    """Return the id that links a call to its response; some servers set only the item's id."""
    return read(item, "call_id") or read(item, "id")


def _thoughts(item: Any) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield each non-empty text of a reasoning item with its field and index."""
    for field in ("summary", "content"):
        for index, thought in enumerate(read(item, field) or ()):
            words = read(thought, "text")
            if isinstance(words, str) and words:
                yield words, (field, index)


def _whole_parts(item: Any) -> list[Part]:
    """Return the parts of an item that arrives in one piece, ``[]`` for any other item."""
    kind = str(read(item, "type"))
    named = _SERVER_TOOLS.get(kind) or _SERVER_ANSWERS.get(kind)
    if named is None:
        return [compaction(dumped(item))] if kind == "compaction" else []
    fields = dumped(item)
    identity, call_id = fields.pop("id", None), fields.pop("call_id", None)
    if kind in _SERVER_ANSWERS:
        return [server_tool_response(id=call_id, response={**fields, "type": named})]
    name = fields.pop("name", named)
    image = fields.pop("result", None) if kind == "image_generation_call" else None
    call = server_tool_call(id=call_id or identity, name=name, call={**fields, "type": named})
    if not isinstance(image, str):
        return [call]
    return [call, blob("image", f"image/{fields.get('output_format', 'png')}", image)]


def _fragments(response: Any) -> Iterator[Fragment]:
    kind = read(response, "type")
    if kind in _DELTAS:
        delta = read(response, "delta")
        if isinstance(delta, str):
            yield Fragment(_DELTAS[kind], delta, slot=_slot_of(_DELTAS[kind], response))
    elif kind == "response.output_item.added":
        # This event names the tool; the arguments follow in later events.
        item = read(response, "item")
        if read(item, "type") in _STREAMED_CALLS:
            yield _tool_call(item, "", read(response, "output_index"))
    elif kind == "response.output_item.done":
        # All other tool calls and results arrive in one piece.
        item = read(response, "item")
        if read(item, "type") not in {"message", "reasoning", *_STREAMED_CALLS}:
            yield from _of_item(item, read(response, "output_index"))
    elif kind is None:
        # A whole response. The event that ends a stream contains one too, but it has a `type`, and
        # its content has already been read from the earlier events.
        for index, item in enumerate(read(response, "output") or ()):
            yield from _of_item(item, index)


def _slot_of(kind: FragmentKind, event: Any) -> tuple[Any, ...]:
    index = read(event, "output_index")
    if kind is FragmentKind.TOOL_CALL:
        return (index,)
    return (index, read(event, "content_index"), read(event, "summary_index"))


def _of_item(item: Any, index: int) -> Iterator[Fragment]:
    kind = str(read(item, "type"))
    if kind in TOOL_CALLS:
        arguments = _arguments(kind, item)
        words = arguments if isinstance(arguments, str) else written(arguments)
        yield _tool_call(item, words, index)
    elif kind == "reasoning":
        for words, place in _thoughts(item):
            yield Fragment(FragmentKind.REASONING, words, slot=(index, *place))
    elif kind == "message":
        for place, part in enumerate(read(item, "content") or ()):
            words = read(part, "text") or read(part, "refusal")
            if words:
                yield Fragment(FragmentKind.TEXT, words, slot=(index, place))
    else:
        for place, part in enumerate(_whole_parts(item)):
            yield Fragment(FragmentKind.WHOLE, "", slot=(index, place), part=part)


def _tool_call(item: Any, arguments: str, index: int) -> Fragment:
    return Fragment(
        FragmentKind.TOOL_CALL,
        arguments,
        slot=(index,),
        id=_id_of(item),
        name=_name_of(str(read(item, "type")), item),
    )


_LAST_EVENTS: Final = frozenset({"response.completed", "response.failed", "response.incomplete"})
"""Events that end a stream; each contains the whole response."""


def _fetched_fragments(response: Any) -> Iterator[Fragment]:
    kind = read(response, "type")
    if kind is None or kind in _LAST_EVENTS:
        whole = response if kind is None else read(response, "response")
        for part in _instructions_in(whole):
            yield Fragment(FragmentKind.SYSTEM, "", part=part)
    yield from _fragments(response)


def _instructions_in(response: Any) -> Iterator[Part]:
    """Yield the parts of the instructions that a whole response repeats from its request."""
    instructions: object = read(response, "instructions")
    contents = [instructions]
    if isinstance(instructions, list):
        contents = [dumped(item).get("content") for item in cast("list[object]", instructions)]
    for content in contents:
        yield from (part for part in parts_of(content) if part.get("content"))


OPENAI_RESPONSES_CONTENT: Final = ContentShape(
    request_fields=("input", "instructions", "tools"),
    request_content=_request_content,
    fragments=_fragments,
)

OPENAI_FETCHED_RESPONSES_CONTENT: Final = ContentShape(
    # The request has only the id of the response.
    request_fields=(),
    request_content=lambda _: Content(),
    fragments=_fetched_fragments,
    is_generated=False,
)
