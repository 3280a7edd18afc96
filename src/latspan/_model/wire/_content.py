"""
Content of requests, responses and chunks, in one shape for all APIs.

It is read only if the configuration requires it: to count tokens, or to record content on spans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, cast

from latspan._model.wire._body import Body, copied
from latspan._model.wire._media import media_in
from latspan._model.wire._serialized import json_in, written

Part = Mapping[str, Any]
"""A part of a message, as defined by the JSON schema of the GenAI conventions."""

Message = Mapping[str, Any]
"""A message, as defined by the JSON schema of the GenAI conventions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """
    Input and output of a call, in the shape of the GenAI conventions.

    Args:
        system: Instructions that are separate from the messages.
        input: The messages of the request.
        tools: The tools that the model may call.
        output: The messages of the response, one per choice.
        is_chat: ``True`` if the messages form a conversation, each with a role.

    Source: OpenTelemetry GenAI conventions, the JSON schemas of ``gen_ai.input.messages``,
    ``gen_ai.output.messages``, ``gen_ai.system_instructions`` and ``gen_ai.tool.definitions``.
    """

    system: tuple[Part, ...] = ()
    input: tuple[Message, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    output: tuple[Message, ...] = ()
    is_chat: bool = True


class FragmentKind(StrEnum):
    """Type of the part that a fragment of a response belongs to, as named by the conventions."""

    TEXT = "text"
    """Text or a refusal."""
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    """The arguments of a tool call, including calls of the provider's own tools."""
    WHOLE = "whole"
    """A part that arrived in one piece, for example the result of one of the provider's tools."""
    SYSTEM = "system"
    """A part of the instructions of the request, which a fetched response repeats."""


class Fragment(NamedTuple):
    """
    A piece of text in a response: the text of a chunk, or a whole part that arrived in one piece.

    Args:
        kind: The type of the part that the text belongs to.
        text: The text.
        choice: Index of the choice that the fragment belongs to.
        slot: Key that separates texts of the same kind, for example several tool calls, or a
            refusal and the content.
        id: The tool call's id, if this fragment contains it.
        name: The name of the called tool, if this fragment contains it.
        part: The part itself, if ``kind``, ``id`` and ``name`` do not describe it completely.
    """

    kind: FragmentKind
    text: str
    choice: int = 0
    slot: Hashable = 0
    id: str | None = None
    name: str | None = None
    part: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContentShape:
    """
    Location of the text in the requests and responses of one API.

    Args:
        request_fields: The fields of a request that hold content; no other field is read.
        request_content: Returns the content of a request, given as a plain mapping.
        fragments: Returns the text in a chunk or a whole response, given as an SDK object or a
            plain mapping.
        is_generated: Whether the request generates the response. If it only fetches a stored one,
            its tokens are not counted.
    """

    request_fields: tuple[str, ...]
    request_content: Callable[[Body], Content]
    fragments: Callable[[Any], Iterable[Fragment]]
    is_generated: bool = True


def copy_fields(request: Mapping[str, Any], names: Sequence[str]) -> Body | None:
    """
    Return a copy of some fields of a request, made before the caller can change them.

    The caller may append to its list of messages after the call, so a reference is not enough.

    Returns:
        ``None`` if a field contains itself or a value that can be read only once, for example an
        iterator. Such a value is left to the client library, which sends the request.
    """
    left_out: list[object] = []
    try:
        body = {
            name: copied(request[name], left_out=left_out, defaults=True)
            for name in names
            if name in request
        }
    except ValueError:
        return None
    return None if any(isinstance(each, Iterable) for each in left_out) else body


def read(value: Any, name: str) -> Any:
    """Return a field of an SDK object or of a ``dict``, ``None`` if the field is missing."""
    # `isinstance(value, Mapping)` would take ten times as long, and this runs for each chunk.
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(name)
    return getattr(value, name, None)


def position_of(index: object) -> int:
    """Return the position of a choice, 0 if its index is not a number."""
    return index if isinstance(index, int) else 0


def dumped(value: Any) -> dict[str, Any]:
    """Return an SDK object or a ``dict`` as plain data, without the fields that are ``None``."""
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
    """Return the mappings in the list at ``body[name]``, ``[]`` if there is no such list."""
    value: Any = body.get(name)
    if not isinstance(value, list):
        return []
    # `cast` would add a function call, and this runs several times per response.
    return [item for item in value if isinstance(item, dict)]  # pyright: ignore[reportUnknownVariableType]


def text(content: str) -> Part:
    """Return a text part."""
    return {"type": FragmentKind.TEXT.value, "content": content}


def tool_call(*, id: object, name: object, arguments: object) -> Part:  # noqa: A002 - its name
    """Return a tool call part; the arguments may be JSON text."""
    return {
        "type": FragmentKind.TOOL_CALL.value,
        "id": id,
        "name": str(name or ""),
        "arguments": arguments,
    }


def tool_response(*, id: object, response: object) -> Part:  # noqa: A002 - its name
    """Return a tool response part; ``response`` is text, data, or parts in an API's shape."""
    content: Any = response
    if isinstance(response, list):
        content = parts_of(cast("object", response))
    elif isinstance(response, dict):
        # A computer-use tool responds with a screenshot.
        response = cast("dict[str, Any]", response)
        content = media_in(response) or response
    return {"type": "tool_call_response", "id": id, "response": content}


def server_tool_call(*, id: object, name: object, call: Mapping[str, Any]) -> Part:  # noqa: A002 - its name
    """
    Return a part for a call of one of the provider's own tools.

    Args:
        id: The call's id.
        name: The tool's name.
        call: The provider's fields of the call; ``type`` names the tool.
    """
    return {
        "type": "server_tool_call",
        "id": id,
        "name": str(name or ""),
        "server_tool_call": call,
    }


def server_tool_response(*, id: object, response: Mapping[str, Any]) -> Part:  # noqa: A002 - its name
    """Return a part for the response of a provider's tool; ``response["type"]`` names the tool."""
    return {"type": "server_tool_call_response", "id": id, "server_tool_call_response": response}


def tool(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool definition; only type and name if the tool is not a function."""
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
    """Return the role and the message for each entry of ``body[name]`` that has a role."""
    return [
        (role, each) for each in listed(body, name) if isinstance(role := each.get("role"), str)
    ]


def parts_of(content: object) -> list[Part]:
    """
    Return the parts of a message's content, given in the shape of any known API.

    A block that is neither text nor a part defined by the conventions is reduced to its type.
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
        thought = thinking_in(block)
        return (reasoning(thought),) if thought else ()
    if kind == "compaction":
        return (compaction(block),)
    server_tool = server_tool_in(block)
    if server_tool is not None:
        return (server_tool,)
    for name in ("text", "refusal"):
        if isinstance(block.get(name), str):
            return (text(block[name]),)
    return _text_inside(block) or (media_in(block) or {"type": kind},)


def thinking_in(part: object) -> str:
    """Return the text of a part of type ``thinking``; Mistral's has a list of text parts."""
    thinking = read(part, "thinking")
    if not isinstance(thinking, list):
        return thinking if isinstance(thinking, str) else ""
    texts = (read(each, "text") for each in cast("list[object]", thinking))
    return "".join(each for each in texts if isinstance(each, str))


def reasoning(content: str) -> Part:
    """Return a reasoning part."""
    return {"type": FragmentKind.REASONING.value, "content": content}


def _text_inside(block: Mapping[str, Any]) -> list[Part]:
    """Return the parts of a document or search result that contains its own text."""
    source: object = block.get("source")
    inside = cast("dict[str, Any]", source) if isinstance(source, dict) else block
    if inside.get("type") == "text":
        return parts_of(inside.get("data"))
    return parts_of(inside["content"]) if inside.get("type") in _CONTAINERS else []


_CONTAINERS: Final = frozenset({"content", "search_result"})


def compaction(item: Mapping[str, Any]) -> Part:
    """Return a part that represents a conversation compacted by the provider."""
    kept = {name: item[name] for name in ("id", "content") if isinstance(item.get(name), str)}
    return {"type": "compaction", **kept}


_RESULT: Final = "_tool_result"


def server_tool_in(block: Mapping[str, Any]) -> Part | None:
    """
    Return the part for a call or response of an Anthropic server tool, ``None`` otherwise.

    Args:
        block: A content block, as a plain mapping.
    """
    kind = str(block.get("type"))
    if kind == "server_tool_use":
        return server_tool_call(
            id=block.get("id"),
            name=block.get("name"),
            call={**_other_fields(block, "id", "name"), "type": block.get("name")},
        )
    if kind == "mcp_tool_use":
        call = {**_other_fields(block, "id", "name", "input"), "arguments": block.get("input")}
        return server_tool_call(id=block.get("id"), name=block.get("name"), call=call)
    if not kind.endswith(_RESULT):
        return None
    named = kind if kind.startswith("mcp_") else kind.removesuffix(_RESULT)
    return server_tool_response(
        id=block.get("tool_use_id"), response={**_other_fields(block, "tool_use_id"), "type": named}
    )


def _other_fields(block: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name not in names}


_FINISH_REASONS: Final = {
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "tool_use": "tool_call",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "TOOL_CALL": "tool_call",
    "FINISH": "stop",
    "LENGTH": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
"""Maps the finish reasons of the APIs to those of the conventions."""


def output_messages(
    fragments: Iterable[Fragment],
    finish_reasons: Mapping[int, str],
    *,
    default_reason: str | None = None,
) -> tuple[Message, ...]:
    """
    Return the messages assembled from fragments, one per choice.

    Args:
        fragments: In order of arrival.
        finish_reasons: By choice. A choice with a finish reason has a message even if it is empty.
        default_reason: Finish reason of the other choices; ``None`` if they have none.
    """
    choices: dict[int, dict[Hashable, list[Fragment]]] = {each: {} for each in finish_reasons}
    for each in fragments:
        parts = choices.setdefault(each.choice, {})
        parts.setdefault((each.kind, _hashable(each.slot)), []).append(each)
    return tuple(
        _output_message(choices[choice].values(), finish_reasons.get(choice, default_reason))
        for choice in sorted(choices)
    )


def _output_message(parts: Iterable[list[Fragment]], finish_reason: str | None) -> Message:
    output = message("assistant", [part for each in parts if (part := _joined(each)) is not None])
    if finish_reason is None:
        return output
    return {**output, "finish_reason": _FINISH_REASONS.get(finish_reason, finish_reason)}


def _hashable(slot: Hashable) -> Hashable:
    try:
        hash(slot)
    except TypeError:
        return str(slot)
    return slot


def _words(value: object) -> str:
    return value if isinstance(value, str) else written(value)


def _joined(fragments: Sequence[Fragment]) -> Part | None:
    """Return the part assembled from fragments, ``None`` for empty text or reasoning."""
    # Some servers send data where the API defines text, for example in a tool's arguments.
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
    """Return the call of a provider's tool with the arguments that followed it in the stream."""
    call: Mapping[str, Any] = part["server_tool_call"]
    field = "arguments" if "arguments" in call else "input"
    return {**part, "server_tool_call": {**call, field: json_in(joined)}}
