"""Ask the server at the URL in the first argument once with each client; a recording shows it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import aiohttp
import httpx
import openai
import requests

import latspan

_BODY: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "hello"}],
}


async def _with_aiohttp(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.post(url, json=_BODY) as response:
        async for _ in response.content:
            pass


def main() -> None:
    """Ask with the OpenAI SDK, httpx, aiohttp and requests, each in a request of its own."""
    base = sys.argv[1]
    latspan.configure(export_enabled=False, response_headers=("X-Worker",))
    latspan.auto_instrument()
    url = f"{base}/chat/completions"
    with latspan.request("openai"), openai.OpenAI(base_url=base, api_key="sk-secret") as sdk:
        completions: Any = sdk.chat.completions
        for _ in completions.create(**_BODY):
            pass
    with (
        latspan.request("httpx"),
        httpx.Client() as client,
        client.stream("POST", url, json=_BODY) as response,
    ):
        for _ in response.iter_lines():
            pass
    with latspan.request("aiohttp"):
        asyncio.run(_with_aiohttp(url))
    with latspan.request("requests"):
        for _ in requests.post(url, json=_BODY, stream=True, timeout=10).iter_lines():
            pass
    with latspan.request("another server"), httpx.Client() as client:
        client.get(f"{base}/models")
    latspan.shutdown()


main()
