"""A program with tasks of an event loop that calls a model with aiohttp, without an SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import aiohttp
from _events import text_of
from _names import slow_names
from _setting import MODEL_URL, SETTING, Call, Request
from _work import ask_async

ERRORS = (aiohttp.ClientError, TimeoutError)


async def main() -> None:
    """Run the users with one session, or with a session for each request."""

    def new_session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=SETTING.client.get("connections", 100)),
            timeout=aiohttp.ClientTimeout(total=SETTING.client.get("timeout_s", 30)),
        )

    async def stream(
        session: aiohttp.ClientSession, call: Call, request: Request, model: str
    ) -> AsyncGenerator[str]:
        body = request.body(call, model)
        url = f"{MODEL_URL}/chat/completions".replace("127.0.0.1", "localhost")
        async with session.post(url, json=body) as response:
            response.raise_for_status()
            async for line in response.content:
                if text := text_of(line):
                    yield text

    async with new_session() as shared:

        async def send(call: Call, request: Request, model: str) -> AsyncGenerator[str]:
            if not SETTING.client.get("new_for_each"):
                async for text in stream(shared, call, request, model):
                    yield text
                return
            async with new_session() as session:
                async for text in stream(session, call, request, model):
                    yield text

        await ask_async(send, ERRORS)


if __name__ == "__main__":
    slow_names(SETTING.client.get("names_ms", 0))
    asyncio.run(main())
