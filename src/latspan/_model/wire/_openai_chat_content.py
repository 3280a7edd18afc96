"""Text in the requests, responses and chunks of OpenAI chat completions."""

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
    listed,
    message,
    messages_in,
    parts_of,
    position_of,
    read,
    text,
    thinking_in,
    tool,
    tool_call,
    tool_response,
)

REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
"""Fields in which DeepSeek, vLLM, llama.cpp and OpenRouter send reasoning; OpenAI hides its own."""


def _request_content(body: Body) -> Content:
    # The deprecated form of `tools`, from the time when every tool was a function.
    functions = ({"type": "function", **each} for each in listed(body, "functions"))
    return Content(
        input=tuple(_message(role, each) for role, each in messages_in(body, "messages")),
        tools=tuple(tool(each) for each in (*listed(body, "tools"), *functions)),
    )


def _message(role: str, fields: Mapping[str, Any]) -> Message:
    content = fields.get("content")
    if role in {"tool", "function"}:
        parts = [tool_response(id=fields.get("tool_call_id"), response=content)]
    else:
        parts = [*parts_of(content), *_called(fields)]
        if isinstance(fields.get("refusal"), str):
            parts.append(text(fields["refusal"]))
    return message(role, parts, name=fields.get("name"))


def _called(fields: Mapping[str, Any]) -> Iterator[Part]:
    for call in listed(fields, "tool_calls"):
        name, arguments = _tool_called(call)
        yield tool_call(id=call.get("id"), name=name, arguments=arguments)
    if isinstance(fields.get("function_call"), dict):
        name, arguments = _tool_called({"function": fields["function_call"]})
        yield tool_call(id=None, name=name, arguments=arguments)


def _tool_called(call: Any) -> tuple[Any, Any]:
    """Return the name and arguments of a tool call: JSON, or free text for a custom tool."""
    custom = read(call, "custom")
    if custom is not None:
        return read(custom, "name"), read(custom, "input")
    function = read(call, "function")
    return read(function, "name"), read(function, "arguments")


def _fragments(response: Any) -> Iterator[Fragment]:
    for choice in read(response, "choices") or ():
        delta = read(choice, "delta") or read(choice, "message")
        if delta is not None:
            yield from _of_choice(delta, position_of(read(choice, "index")))


def _of_choice(delta: Any, choice: int) -> Iterator[Fragment]:
    # SDK objects keep unknown fields in `model_extra`, and looking up a missing attribute on them
    # is slow.
    extra = cast("Any", delta) if isinstance(delta, dict) else read(delta, "model_extra")
    if extra:
        for name in REASONING_FIELDS:
            reasoning = read(extra, name)
            if isinstance(reasoning, str) and reasoning:
                yield Fragment(FragmentKind.REASONING, reasoning, choice)
                break
    for name in ("content", "refusal"):
        words = read(delta, name)
        if isinstance(words, str) and words:
            yield Fragment(FragmentKind.TEXT, words, choice, name)
        elif isinstance(words, list):
            yield from _of_parts(cast("list[object]", words), choice)
    for position, call in enumerate(read(delta, "tool_calls") or ()):
        name, arguments = _tool_called(call)
        index = read(call, "index")
        yield Fragment(
            FragmentKind.TOOL_CALL,
            arguments or "",
            choice,
            position if index is None else index,
            read(call, "id"),
            name,
        )
    # The deprecated form of `tool_calls`, which allows only one call.
    function = read(delta, "function_call")
    if function is not None:
        name, arguments = _tool_called({"function": function})
        yield Fragment(FragmentKind.TOOL_CALL, arguments or "", choice, "function_call", name=name)


def _of_parts(parts: list[object], choice: int) -> Iterator[Fragment]:
    """Yield the text of a content that is a list of parts, which Mistral's models return."""
    for part in parts:
        thought = thinking_in(part)
        if thought:
            yield Fragment(FragmentKind.REASONING, thought, choice)
        words = read(part, "text")
        if isinstance(words, str) and words:
            yield Fragment(FragmentKind.TEXT, words, choice, "content")


OPENAI_CHAT_CONTENT: Final = ContentShape(
    request_fields=("messages", "tools", "functions"),
    request_content=_request_content,
    fragments=_fragments,
)
