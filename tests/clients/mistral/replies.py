"""Bytes of the Mistral API, and what a client sends for them."""

from __future__ import annotations

import json
from typing import Any, Final

MESSAGES: Final[Any] = [{"role": "user", "content": "Where is it?"}]
USAGE: Final = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 2},
}
DONE: Final = b"data: [DONE]\n\n"
EMBEDDINGS: Final = {
    "id": "e1",
    "object": "list",
    "model": "mistral-embed-1",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25, 0.125]}],
    "usage": {"prompt_tokens": 7, "total_tokens": 7},
}


def text(words: str) -> dict[str, Any]:
    """Return a part of a content with text."""
    return {"type": "text", "text": words}


def thinking(words: str) -> dict[str, Any]:
    """Return a part of a content with reasoning."""
    return {"type": "thinking", "thinking": [text(words)]}


def completion(content: Any = "Here.", *, reason: str = "stop", **message: Any) -> dict[str, Any]:
    """Return a complete response."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **message},
        "finish_reason": reason,
    }
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m-1"}
    return {**head, "choices": [choice], "usage": USAGE}


def chunk(content: Any, *, reason: str | None = None, usage: Any = None, **delta: Any) -> bytes:
    """Return one event of a stream."""
    body: dict[str, Any] = {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-1",
        "choices": [{"index": 0, "delta": {"content": content, **delta}, "finish_reason": reason}],
    }
    return event(body if usage is None else {**body, "usage": usage})


def event(body: Any) -> bytes:
    """Return a server-sent event."""
    return b"data: %s\n\n" % json.dumps(body).encode()
