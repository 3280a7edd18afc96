"""Text in the requests, responses and chunks of OpenAI's legacy text completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from latspan._wire._body import Body
from latspan._wire._content import (
    Content,
    ContentShape,
    Fragment,
    FragmentKind,
    Message,
    message,
    parts_of,
    position_of,
    read,
)

__all__ = ["OPENAI_COMPLETIONS_CONTENT"]


def _request_content(body: Body) -> Content:
    prompt: object = body.get("prompt")
    prompts = cast("list[object]", prompt) if isinstance(prompt, list) else [prompt]
    return Content(input=tuple(_message(each) for each in prompts if each), is_chat=False)


def _message(prompt: object) -> Message:
    # A prompt may consist of token ids, whose text is not available without the tokenizer.
    return message("user", parts_of(prompt) if isinstance(prompt, str) else [{"type": "tokens"}])


def _fragments(response: Any) -> Iterator[Fragment]:
    for choice in read(response, "choices") or ():
        words = read(choice, "text")
        if isinstance(words, str) and words:
            yield Fragment(FragmentKind.TEXT, words, position_of(read(choice, "index")))


OPENAI_COMPLETIONS_CONTENT: Final = ContentShape(
    request_fields=("prompt",), request_content=_request_content, fragments=_fragments
)
