"""
What was asked and what was said: text in requests, answers and chunks, in one shape for all APIs.

Read only where somebody asked for it: to count tokens, or to put content on spans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, cast

from latspan._wire._body import Body, copied
from latspan._wire._media import media_in
from latspan._wire._serialized import json_in, written

__all__ = [
    "Content",
    "ContentShape",
    "Fragment",
    "FragmentKind",
    "Message",
    "Part",
    "compaction",
    "copy_fields",
    "dumped",
    "listed",
    "message",
    "messages_in",
    "output_messages",
    "parts_of",
    "position_of",
    "read",
    "server_tool_call",
    "server_tool_in",
    "server_tool_response",
    "text",
    "tool",
    "tool_call",
    "tool_response",
]

Part = Mapping[str, Any]
"""A part of a message, as the GenAI conventions' JSON schema has it."""

Message = Mapping[str, Any]
"""A message, as the GenAI conventions' JSON schema has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """
    What a call said and was told, in the shape of the GenAI conventions.

    Args:
        system: Instructions that stand apart from the messages.
        input: The messages of the request.
        tools: The tools that the model may call.
        output: The messages of the answer, one a choice.
        is_chat: Whether the messages are those of a conversation, framed by role.

    Source: OpenTelemetry GenAI conventions, the JSON schemas of ``gen_ai.input.messages``,
    ``gen_ai.output.messages``, ``gen_ai.system_instructions`` and ``gen_ai.tool.definitions``.
    """

    system: tuple[Part, ...] = ()
    input: tuple[Message, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    output: tuple[Message, ...] = ()
    is_chat: bool = True


class FragmentKind(StrEnum):
    """What a fragment of an answer is part of; the conventions' name for such a part."""

    TEXT = "text"
    """Text or a refusal."""
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    """The arguments of a tool call, the provider's own tools included."""
    WHOLE = "whole"
    """A part that came in one piece, for example what a tool of the provider's found."""


class Fragment(NamedTuple):
    """
    A piece of text in an answer: a chunk's, or a whole part of an answer in one piece.

    Args:
        kind: What it is part of.
        text: The text.
        choice: Which of several answers it belongs to.
        slot: Tells apart what of one kind is not one text: several tool calls, or a refusal.
        id: A tool call's id, where this fragment says it.
        name: The name of the tool called, where this fragment says it.
        part: The part itself, where it is one that ``kind``, ``id`` and ``name`` do not describe.
    """

    kind: FragmentKind
    text: str
    choice: int = 0
    slot: Hashable = 0
    id: str | None = None
    name: str | None = None
    part: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentShape:
    """
    Where text stands in one API's requests and answers.

    Args:
        request_fields: The fields of a request that hold content; nothing else of it is read.
        asked: The content of a request, from a plain mapping.
        fragments: The text in a chunk or a whole answer, an SDK's object or a plain mapping.
    """

    request_fields: tuple[str, ...]
    asked: Callable[[Body], Content]
    fragments: Callable[[Any], Iterable[Fragment]]


def copy_fields(request: Mapping[str, Any], names: Sequence[str]) -> Body | None:
    """
    Return a copy of some fields of a request, made while it is still what is sent.

    A caller goes on with its list of messages, so a reference to it would not do.

    Returns:
        ``None`` if part of it can be read only once, an iterator for example, or is inside itself:
        that is left to whoever sends the request.
    """
    left_out: list[object] = []
    try:
        body = {name: copied(request[name], left_out=left_out) for name in names if name in request}
    except ValueError:
        return None
    return None if any(isinstance(each, Iterable) for each in left_out) else body


def read(value: Any, name: str) -> Any:
    """Return a field of an SDK's object or of a ``dict``, ``None`` where there is none."""
    # Asking for a mapping would take ten times as long, and this is done for each chunk.
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(name)
    return getattr(value, name, None)


def position_of(index: object) -> int:
    """Return the position of a choice; of one whose index is no number, the first."""
    return index if isinstance(index, int) else 0


def dumped(value: Any) -> dict[str, Any]:
    """Return an SDK's object or a ``dict`` as plain data, without what it leaves unset."""
    dump = getattr(value, "model_dump", None)
    plain = dump(mode="json", warnings=False) if callable(dump) else value
    return cast("dict[str, Any]", _without_none(plain)) if isinstance(plain, dict) else {}


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {name: _without_none(inner) for name, inner in pairs if inner is not None}
    if isinstance(value, list):
        return [_without_none(inner) for inner in cast("list[Any]", value)]
    return value


def listed(body: Body, name: str) -> list[dict[str, Any]]:
    """Return the mappings in a list of ``body``, empty where it has no such list."""
    value: Any = body.get(name)
    if not isinstance(value, list):
        return []
    # Not by `cast`, which is a call of its own: this is done several times for each answer.
    return [item for item in value if isinstance(item, dict)]  # pyright: ignore[reportUnknownVariableType]


def text(content: str) -> Part:
    """Return a part that is text."""
    return {"type": FragmentKind.TEXT.value, "content": content}


def tool_call(*, id: object, name: object, arguments: object) -> Part:  # noqa: A002 - its name
    """Return a part that calls a tool; the arguments may be JSON text."""
    return {
        "type": FragmentKind.TOOL_CALL.value,
        "id": id,
        "name": str(name or ""),
        "arguments": arguments,
    }


def tool_response(*, id: object, response: object) -> Part:  # noqa: A002 - its name
    """Return a part that is a tool's answer: text, data, or parts as an API has them."""
    said: Any = response
    if isinstance(response, list):
        said = parts_of(cast("object", response))
    elif isinstance(response, dict):
        # What a computer answers with is a picture of its screen.
        answer = cast("dict[str, Any]", response)
        said = media_in(answer) or answer
    return {"type": "tool_call_response", "id": id, "response": said}


def server_tool_call(*, id: object, name: object, call: Mapping[str, Any]) -> Part:  # noqa: A002 - its name
    """
    Return a part that calls a tool of the provider's.

    Args:
        id: The call's id.
        name: The tool's name.
        call: What the provider has of the call; its ``type`` names the tool.
    """
    return {
        "type": "server_tool_call",
        "id": id,
        "name": str(name or ""),
        "server_tool_call": call,
    }


def server_tool_response(*, id: object, response: Mapping[str, Any]) -> Part:  # noqa: A002 - its name
    """Return a part that is the answer of a tool of the provider's, whose ``type`` names it."""
    return {"type": "server_tool_call_response", "id": id, "server_tool_call_response": response}


def tool(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition of a tool; of one that is not a function its type and name."""
    kind = definition.get("type", "function")
    nested: Any = definition.get(str(kind))
    described = cast("dict[str, Any]", nested) if isinstance(nested, dict) else definition
    # Anthropic calls its functions `custom` tools; OpenAI's custom tools take free text.
    schema = described.get("parameters", described.get("input_schema"))
    if kind != "function" and "input_schema" not in described:
        return {"type": kind, "name": described.get("name") or kind}
    return {
        "type": "function",
        "name": described.get("name"),
        "description": described.get("description"),
        "parameters": schema,
    }


def message(role: str, parts: Iterable[Part], *, name: object = None) -> Message:
    """Return a message of a request."""
    named = {} if name is None else {"name": name}
    return {"role": role, "parts": list(parts), **named}


def messages_in(body: Body, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the messages in a list of ``body`` with their roles; one without a role is none."""
    return [
        (role, each) for each in listed(body, name) if isinstance(role := each.get("role"), str)
    ]


def parts_of(content: object) -> list[Part]:
    """
    Return the parts of a message's content, as any of the known APIs has it.

    What is neither text nor one of the conventions' parts is named by its type, and nothing of it
    is kept.
    """
    if isinstance(content, str):
        return [text(content)]
    if not isinstance(content, list):
        return []
    return [part for item in cast("list[object]", content) for part in _parts(item)]


def _parts(item: object) -> Iterable[Part]:
    if isinstance(item, str):
        return (text(item),)
    if not isinstance(item, dict):
        return ({"type": "unknown"},)
    block = cast("dict[str, Any]", item)
    kind = str(block.get("type") or "unknown")
    if kind == "tool_use":
        return (
            tool_call(id=block.get("id"), name=block.get("name"), arguments=block.get("input")),
        )
    if kind == "tool_result":
        return (tool_response(id=block.get("tool_use_id"), response=block.get("content")),)
    if kind == "thinking":
        thought = block.get("thinking")
        return (_reasoning(thought),) if isinstance(thought, str) and thought else ()
    if kind == "compaction":
        return (compaction(block),)
    server_tool = server_tool_in(block)
    if server_tool is not None:
        return (server_tool,)
    for name in ("text", "refusal"):
        if isinstance(block.get(name), str):
            return (text(block[name]),)
    return _text_inside(block) or (media_in(block) or {"type": kind},)


def _reasoning(content: str) -> Part:
    return {"type": FragmentKind.REASONING.value, "content": content}


def _text_inside(block: Mapping[str, Any]) -> list[Part]:
    """Return the parts of a document or of a search result that brings its text with it."""
    source: object = block.get("source")
    inside = cast("dict[str, Any]", source) if isinstance(source, dict) else block
    if inside.get("type") == "text":
        return parts_of(inside.get("data"))
    return parts_of(inside["content"]) if inside.get("type") in _CONTAINERS else []


_CONTAINERS: Final = frozenset({"content", "search_result"})


def compaction(item: Mapping[str, Any]) -> Part:
    """Return a part that stands for a conversation that the provider has compacted."""
    said = {name: item[name] for name in ("id", "content") if isinstance(item.get(name), str)}
    return {"type": "compaction", **said}


_RESULT: Final = "_tool_result"


def server_tool_in(block: Mapping[str, Any]) -> Part | None:
    """
    Return the call or the answer of a tool that runs at Anthropic, ``None`` for any other block.

    Args:
        block: A content block, as a plain mapping.
    """
    kind = str(block.get("type"))
    if kind == "server_tool_use":
        return server_tool_call(
            id=block.get("id"),
            name=block.get("name"),
            call={**_beside(block, "id", "name"), "type": block.get("name")},
        )
    if kind == "mcp_tool_use":
        call = {**_beside(block, "id", "name", "input"), "arguments": block.get("input")}
        return server_tool_call(id=block.get("id"), name=block.get("name"), call=call)
    if not kind.endswith(_RESULT):
        return None
    named = kind if kind.startswith("mcp_") else kind.removesuffix(_RESULT)
    return server_tool_response(
        id=block.get("tool_use_id"), response={**_beside(block, "tool_use_id"), "type": named}
    )


def _beside(block: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name not in names}


_FINISH_REASONS: Final = {
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "tool_use": "tool_call",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
}
"""What APIs call the conventions' finish reasons."""


def output_messages(
    fragments: Iterable[Fragment], finish_reasons: Mapping[int, str]
) -> tuple[Message, ...]:
    """
    Return the messages that fragments make, one per choice.

    Args:
        fragments: In the order in which they came.
        finish_reasons: Of each choice that has one; its message is there even if it is empty.
    """
    choices: dict[int, dict[Hashable, list[Fragment]]] = {each: {} for each in finish_reasons}
    for each in fragments:
        parts = choices.setdefault(each.choice, {})
        parts.setdefault((each.kind, _hashable(each.slot)), []).append(each)
    return tuple(
        _said(choices[choice].values(), finish_reasons.get(choice)) for choice in sorted(choices)
    )


def _said(parts: Iterable[list[Fragment]], finish_reason: str | None) -> Message:
    said = message("assistant", [part for each in parts if (part := _joined(each)) is not None])
    if finish_reason is None:
        return said
    return {**said, "finish_reason": _FINISH_REASONS.get(finish_reason, finish_reason)}


def _hashable(slot: Hashable) -> Hashable:
    try:
        hash(slot)
    except TypeError:
        return str(slot)
    return slot


def _words(said: object) -> str:
    return said if isinstance(said, str) else written(said)


def _joined(fragments: Sequence[Fragment]) -> Part | None:
    """Return the part that fragments make, ``None`` for text or reasoning that is empty."""
    # A server may have data where the API has text, the arguments of a tool for example.
    joined = "".join(_words(each.text) for each in fragments)
    whole = next((each.part for each in fragments if each.part is not None), None)
    if whole is not None:
        return _with_arguments(whole, joined) if joined else whole
    if fragments[0].kind is not FragmentKind.TOOL_CALL:
        return {"type": fragments[0].kind.value, "content": joined} if joined else None
    return tool_call(
        id=next((each.id for each in fragments if each.id), None),
        name=next((each.name for each in fragments if each.name), None),
        arguments=joined or None,
    )


def _with_arguments(part: Part, joined: str) -> Part:
    """Return the call of a provider's tool with the arguments that came after it in a stream."""
    call: Mapping[str, Any] = part["server_tool_call"]
    field = "arguments" if "arguments" in call else "input"
    return {**part, "server_tool_call": {**call, field: json_in(joined)}}
