"""
What was asked and what was said: text in requests, answers and chunks, in one shape for all APIs.

Read only where somebody asked for it: to count tokens, or to put content on spans.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, cast

from latspan.wire._body import Body

__all__ = [
    "Content",
    "ContentShape",
    "Fragment",
    "FragmentKind",
    "Message",
    "Part",
    "as_json",
    "listed",
    "message",
    "parts_of",
    "read",
    "said_in",
    "taken_down",
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
    """The arguments of a tool call."""


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
    """

    kind: FragmentKind
    text: str
    choice: int = 0
    slot: Hashable = 0
    id: str | None = None
    name: str | None = None


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


def taken_down(request: Mapping[str, Any], names: Sequence[str]) -> Body:
    """
    Return a copy of some fields of a request, made while it is still what is sent.

    A caller goes on with its list of messages, so a reference to it would not do. What is no
    plain data and no model of an SDK's is left out; an iterator is not consumed.
    """
    return {name: _copied(request[name]) for name in names if name in request}


def _copied(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, Any]", value).items()
        return {str(name): _copied(inner) for name, inner in pairs}
    if isinstance(value, list | tuple):
        return [_copied(inner) for inner in cast("Sequence[Any]", value)]
    dump = getattr(value, "model_dump", None)
    return dump(warnings=False, exclude_unset=True) if callable(dump) else None


def read(value: Any, name: str) -> Any:
    """Return a field of an SDK's object or of a ``dict``, ``None`` where there is none."""
    # Asking for a mapping would take ten times as long, and this is done for each chunk.
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(name)
    return getattr(value, name, None)


def listed(body: Body, name: str) -> list[dict[str, Any]]:
    """Return the mappings in a list of ``body``, empty where it has no such list."""
    value: object = body.get(name)
    if not isinstance(value, list):
        return []
    items = cast("list[object]", value)
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


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
    """Return a part that is a tool's answer: text, or parts as an API has them."""
    said = parts_of(cast("object", response)) if isinstance(response, list) else response
    return {"type": "tool_call_response", "id": id, "response": said}


def tool(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition of a tool; of one that is no function its type and name."""
    function: Any = definition.get("function", definition)
    kind = definition.get("type", "function")
    if kind not in {"function", "custom"} or not isinstance(function, dict):
        return {"type": kind, "name": definition.get("name") or kind}
    described = cast("dict[str, Any]", function)
    return {
        "type": "function",
        "name": described.get("name"),
        "description": described.get("description"),
        "parameters": described.get("parameters", described.get("input_schema")),
    }


def message(role: object, parts: Iterable[Part], *, name: object = None) -> Message:
    """Return a message of a request."""
    named = {} if name is None else {"name": name}
    return {"role": str(role), "parts": list(parts), **named}


def parts_of(content: object) -> list[Part]:
    """
    Return the parts of a message's content, as any of the known APIs has it.

    What is no text, an image for example, is named by its type, and nothing of it is kept.
    """
    if isinstance(content, str):
        return [text(content)]
    if not isinstance(content, list):
        return []
    return [_part(item) for item in cast("list[object]", content)]


def _part(item: object) -> Part:
    if isinstance(item, str):
        return text(item)
    if not isinstance(item, dict):
        return {"type": "unknown"}
    block = cast("dict[str, Any]", item)
    kind = str(block.get("type") or "unknown")
    if kind == "tool_use":
        return tool_call(id=block.get("id"), name=block.get("name"), arguments=block.get("input"))
    if kind == "tool_result":
        return tool_response(id=block.get("tool_use_id"), response=block.get("content"))
    if kind == "thinking":
        return {"type": FragmentKind.REASONING.value, "content": str(block.get("thinking") or "")}
    for name in ("text", "refusal"):
        if isinstance(block.get(name), str):
            return text(block[name])
    return {"type": kind}


_FINISH_REASONS: Final = {
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "tool_use": "tool_call",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
}
"""What APIs call the conventions' finish reasons."""


def said_in(fragments: Iterable[Fragment], finish_reasons: Sequence[str]) -> tuple[Message, ...]:
    """
    Return the messages that fragments make, one a choice.

    Args:
        fragments: In the order in which they came.
        finish_reasons: Of each choice; fewer where a choice did not come to its end.
    """
    choices: dict[int, dict[Hashable, list[Fragment]]] = {}
    for each in fragments:
        parts = choices.setdefault(each.choice, {})
        parts.setdefault((each.kind, each.slot), []).append(each)
    reasons = finish_reasons if len(finish_reasons) == len(choices) else [None] * len(choices)
    return tuple(
        _said(choices[choice].values(), reason)
        for choice, reason in zip(sorted(choices), reasons, strict=True)
    )


def _said(parts: Iterable[list[Fragment]], finish_reason: str | None) -> Message:
    said = message("assistant", [_joined(part) for part in parts])
    if finish_reason is None:
        return said
    return {**said, "finish_reason": _FINISH_REASONS.get(finish_reason, finish_reason)}


def _joined(fragments: Sequence[Fragment]) -> Part:
    joined = "".join(each.text for each in fragments)
    if fragments[0].kind is not FragmentKind.TOOL_CALL:
        return {"type": fragments[0].kind.value, "content": joined}
    return tool_call(
        id=next((each.id for each in fragments if each.id), None),
        name=next((each.name for each in fragments if each.name), None),
        arguments=joined,
    )


def as_json(content: Sequence[Mapping[str, Any]]) -> str:
    """Return messages, parts or tools as the text that a span's attribute holds."""
    return json.dumps([_readable(each) for each in content], separators=(",", ":"))


def _readable(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message or a part with the arguments of its tool calls as data."""
    if "parts" in value:
        return {**value, "parts": [_readable(part) for part in value["parts"]]}
    arguments = value.get("arguments")
    if isinstance(arguments, str):
        try:
            return {**value, "arguments": json.loads(arguments)}
        except ValueError:
            pass
    return value
