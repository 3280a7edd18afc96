"""A program with tasks of an event loop that calls a model through the OpenAI SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import openai
from _setting import MODEL_URL, SETTING, SPARE_URL, Call, Request
from _work import ask_async

ERRORS = (openai.APIError,)


def new_client(url: str) -> openai.AsyncOpenAI:
    """Create a client with a pool of the size of the setting."""
    limits = httpx2.Limits(max_connections=SETTING.client.get("connections", 100))
    return openai.AsyncOpenAI(
        base_url=url,
        api_key="none",
        timeout=SETTING.client.get("timeout_s", 30),
        max_retries=SETTING.client.get("retries", 2),
        http_client=openai.DefaultAsyncHttpxClient(limits=limits),
    )


CLIENT = new_client(MODEL_URL)
SPARE = new_client(SPARE_URL)


async def send(call: Call, request: Request, model: str) -> AsyncGenerator[str]:
    """Stream an answer; the model ``spare`` has a server of its own."""
    create: Any = (SPARE if model == "spare" else CLIENT).chat.completions.create
    async with await create(**request.body(call, model)) as stream:
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


if __name__ == "__main__":
    asyncio.run(ask_async(send, ERRORS))
