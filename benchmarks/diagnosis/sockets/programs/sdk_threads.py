"""A program with threads that calls a model through the OpenAI SDK."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import httpx2
import openai
from _setting import MODEL_URL, SETTING, Call, Request
from _work import ask

ERRORS = (openai.APIError,)
CLIENT = openai.OpenAI(
    base_url=MODEL_URL,
    api_key="none",
    timeout=SETTING.client.get("timeout_s", 30),
    max_retries=SETTING.client.get("retries", 2),
    http_client=openai.DefaultHttpxClient(
        limits=httpx2.Limits(max_connections=SETTING.client.get("connections", 100))
    ),
)


def send(call: Call, request: Request, model: str) -> Generator[str]:
    """Stream an answer."""
    create: Any = CLIENT.chat.completions.create
    with create(**request.body(call, model)) as stream:
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


if __name__ == "__main__":
    ask(send, ERRORS)
