"""Clients of the Google Gen AI SDK, and the bytes of the API's responses."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any, Final

import pytest

from latspan.testing.contract import json_reply, stream_reply

pytest.importorskip("google.genai", reason="google-genai is not installed")

MODEL: Final = "gemini-2.5-flash"

HTTPX: Final = "httpx2" if int(version("google-genai").partition(".")[0]) >= 3 else "httpx"
"""The library that the installed version of the SDK sends through."""

_USAGE: Final = {
    "promptTokenCount": 7,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 3,
    "thoughtsTokenCount": 2,
    "totalTokenCount": 12,
}


def response(
    *texts: str, finish_reason: str | None = None, thought: bool = False, **more: Any
) -> dict[str, Any]:
    """Return one response, or one event of a stream, as the API writes it."""
    parts = [{"text": text, **({"thought": True} if thought else {})} for text in texts]
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish_reason is not None:
        candidate["finishReason"] = finish_reason
        more = {"usageMetadata": _USAGE, **more}
    return {"candidates": [candidate], "modelVersion": f"{MODEL}-001", "responseId": "r1", **more}


def event(body: dict[str, Any]) -> bytes:
    """Return a response as one server-sent event."""
    return b"data: " + json.dumps(body).encode() + b"\r\n\r\n"


COMPLETE: Final = json_reply(response("Hello", " world", finish_reason="STOP"))

STREAMED: Final = stream_reply(
    event(response("Let me think", thought=True)),
    event(response("Hello")),
    event(response(" world")),
    event(response("!", finish_reason="STOP")),
)


def http_library(name: str) -> Any:
    """Return httpx or httpx2; skip the test if the SDK's version does not send through it."""
    if name != HTTPX and HTTPX != "httpx2":
        pytest.skip("this version of the SDK sends through httpx only")
    return pytest.importorskip(name)


def make_client(url: str, over: str = "httpx", *, vertex: bool = False, **more: Any) -> Any:
    """
    Return a client that retries nothing.

    Args:
        url: Base URL of the server.
        over: What its asynchronous half sends through: ``httpx``, which stands for the library that
            the version of the SDK uses, or ``aiohttp``.
        vertex: Whether it is a client of Vertex AI.
        more: Further options of its requests.
    """
    from google import genai

    options: Any = {"base_url": url, "retry_options": {"attempts": 1}, **more}
    client = genai.Client(vertexai=vertex, api_key="none", http_options=options)
    if over == "httpx":
        # The SDK has no setting for this: it prefers aiohttp where aiohttp is installed.
        vars(client._api_client)["_use_aiohttp"] = lambda: False  # pyright: ignore[reportPrivateUsage]
    return client
