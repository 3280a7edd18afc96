"""Text in the requests and responses of Ollama's own API."""

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
    Part,
    dumped,
    listed,
    message,
    messages_in,
    parts_of,
    read,
    reasoning,
    text,
    tool,
    tool_call,
    tool_response,
)
from latspan._model.wire._fields import sequence
from latspan._model.wire._media import blob
from latspan._model.wire._usage import mapping


def _chat_content(body: Body) -> Content:
    return Content(
        input=tuple(_message(role, each) for role, each in messages_in(body, "messages")),
        tools=tuple(tool(each) for each in listed(body, "tools")),
    )


def _message(role: str, fields: Mapping[str, Any]) -> Message:
    content = fields.get("content")
    if role == "tool":
        return message(role, [tool_response(id=fields.get("tool_call_id"), response=content)])
    thought = fields.get("thinking")
    parts = [reasoning(thought)] if isinstance(thought, str) and thought else []
    # The content of a message that only calls tools is empty.
    parts += parts_of(content) if content else []
    calls = (_called(each) for each in listed(fields, "tool_calls"))
    return message(role, [*parts, *_images(fields), *calls])


def _images(fields: Mapping[str, Any]) -> Iterator[Part]:
    for data in sequence(fields.get("images")):
        if isinstance(data, str):
            yield blob("image", None, data)


def _called(call: Mapping[str, Any]) -> Part:
    function = mapping(call.get("function"))
    return tool_call(
        id=call.get("id"), name=function.get("name"), arguments=function.get("arguments")
    )


def _generate_content(body: Body) -> Content:
    system, prompt = body.get("system"), body.get("prompt")
    parts = [text(prompt)] if isinstance(prompt, str) and prompt else []
    parts += _images(body)
    return Content(
        system=(text(system),) if isinstance(system, str) and system else (),
        input=(message("user", parts),) if parts else (),
        is_chat=False,
    )


def _fragments(response: Any) -> Iterator[Fragment]:
    answer = read(response, "message")
    whole, words = (response, "response") if answer is None else (answer, "content")
    for kind, name in ((FragmentKind.REASONING, "thinking"), (FragmentKind.TEXT, words)):
        content = read(whole, name)
        if isinstance(content, str) and content:
            yield Fragment(kind, content)
    for call in sequence(read(answer, "tool_calls")):
        # Each call arrives in one piece and has no number, so it gets a key of its own.
        yield Fragment(FragmentKind.WHOLE, "", slot=object(), part=_called(dumped(call)))


OLLAMA_CHAT_CONTENT: Final = ContentShape(
    request_fields=("messages", "tools"), request_content=_chat_content, fragments=_fragments
)

OLLAMA_GENERATE_CONTENT: Final = ContentShape(
    request_fields=("prompt", "system", "images"),
    request_content=_generate_content,
    fragments=_fragments,
)
