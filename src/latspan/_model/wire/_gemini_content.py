"""Text in the requests and responses of Google's ``generateContent``."""

from __future__ import annotations

from collections.abc import Iterator
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
    message,
    position_of,
    read,
    reasoning,
    server_tool_call,
    server_tool_response,
    text,
    tool,
    tool_call,
    tool_response,
)
from latspan._model.wire._fields import either, sequence
from latspan._model.wire._media import blob

_ROLES: Final = {"model": "assistant"}


def _request_content(body: Body) -> Content:
    system = either(body, "systemInstruction", "system_instruction")
    contents: Any = body.get("contents")
    several = sequence(contents) or (contents,)
    return Content(
        system=tuple(_parts_of(system)),
        input=tuple(_message(each) for each in several if each),
        tools=tuple(
            tool(_definition(each))
            for group in sequence(body.get("tools"))
            for each in sequence(either(group, "functionDeclarations", "function_declarations"))
            if isinstance(each, dict)
        ),
    )


def _message(content: Any) -> Message:
    role = read(content, "role")
    return message(_ROLES.get(role, role) if isinstance(role, str) else "user", _parts_of(content))


def _definition(declaration: Any) -> dict[str, Any]:
    schema = either(declaration, "parametersJsonSchema", "parameters_json_schema")
    return {
        "name": read(declaration, "name"),
        "description": read(declaration, "description"),
        "parameters": read(declaration, "parameters") if schema is None else schema,
    }


def _parts_of(content: Any) -> list[Part]:
    """Return the parts of a content: text, a mapping with ``parts``, or one part."""
    if isinstance(content, str):
        return [text(content)]
    parts = read(content, "parts")
    several: Any = (content,) if parts is None and isinstance(content, dict) else sequence(parts)
    return [part for each in several if (part := _part(each)) is not None]


def _part(part: Any) -> Part | None:
    if isinstance(part, str):
        return text(part)
    words = read(part, "text")
    if isinstance(words, str):
        thought = read(part, "thought")
        return (reasoning(words) if thought else text(words)) if words else None
    return _whole(part)


def _whole(part: Any) -> Part | None:
    """Return a part that is not text, ``None`` if its kind is unknown."""
    call = either(part, "functionCall", "function_call")
    if call is not None:
        arguments = either(call, "args", "args")
        return tool_call(id=read(call, "id"), name=read(call, "name"), arguments=arguments)
    response = either(part, "functionResponse", "function_response")
    if response is not None:
        return tool_response(id=read(response, "id"), response=read(response, "response"))
    data = either(part, "inlineData", "inline_data")
    if data is not None:
        kind, content = either(data, "mimeType", "mime_type"), read(data, "data")
        return blob(_modality(kind), kind, content if isinstance(content, str) else "")
    file = either(part, "fileData", "file_data")
    if file is not None:
        kind, uri = either(file, "mimeType", "mime_type"), either(file, "fileUri", "file_uri")
        return {"type": "uri", "mime_type": kind, "modality": _modality(kind), "uri": uri}
    code = either(part, "executableCode", "executable_code")
    if code is not None:
        called = {**dumped(code), "type": "code_execution"}
        return server_tool_call(id=read(code, "id"), name="code_execution", call=called)
    result = either(part, "codeExecutionResult", "code_execution_result")
    if result is not None:
        returned = {**dumped(result), "type": "code_execution"}
        return server_tool_response(id=read(result, "id"), response=returned)
    return None


def _modality(mime_type: object) -> str:
    kind = str(mime_type).partition("/")[0]
    return kind if kind in {"image", "audio", "video"} else "document"


def _fragments(response: Any) -> Iterator[Fragment]:
    for candidate in sequence(read(response, "candidates")):
        choice = position_of(read(candidate, "index"))
        for part in sequence(read(read(candidate, "content"), "parts")):
            words = read(part, "text")
            if isinstance(words, str):
                thought = read(part, "thought")
                kind = FragmentKind.REASONING if thought else FragmentKind.TEXT
                yield Fragment(kind, words, choice)
            elif (whole := _whole(part)) is not None:
                # Each arrives in one piece and has no number, so it gets a key of its own.
                yield Fragment(FragmentKind.WHOLE, "", choice, object(), part=whole)


GEMINI_CONTENT: Final = ContentShape(
    request_fields=("contents", "systemInstruction", "system_instruction", "tools"),
    request_content=_request_content,
    fragments=_fragments,
)
