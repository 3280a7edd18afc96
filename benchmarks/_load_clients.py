"""
Load clients in a process of their own: each sends streamed chats and prints the CPU time it took.

Run as ``python _load_clients.py CLIENT BASE_URL REQUESTS IN_FLIGHT FOLDER``. The CPU time is that
of the process from just before the first request to the end of all work, recording included.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

Ask = Callable[[], Awaitable[object]]
"""Function that sends one chat and reads its response to the end."""

_BODY = json.dumps(
    {
        "model": "m",
        "messages": [{"role": "user", "content": "What is the tide?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
).encode()
_HEADERS = {"Content-Type": "application/json"}


async def _send(ask: Ask, requests: int, in_flight: int) -> float:
    """Return the CPU seconds that the requests took on every thread of this process."""
    await ask()
    began = time.process_time()

    async def user() -> None:
        for _ in range(requests // in_flight):
            await ask()

    await asyncio.gather(*(user() for _ in range(in_flight)))
    return time.process_time() - began


async def _with_latspan(url: str, requests: int, in_flight: int) -> float:
    from latspan._load._chat_client import ChatClient
    from latspan._load._endpoint import Endpoint
    from latspan._load._http import instrument_client

    endpoint = Endpoint.from_url(url)
    instrument_client(endpoint)
    client = ChatClient(endpoint, "m")
    taken = await _send(lambda: client.ask(_BODY, 60), requests, in_flight)
    await client.close()
    return taken


async def _with_aiohttp(url: str, requests: int, in_flight: int) -> float:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=_HEADERS) as session:

        async def ask() -> None:
            async with session.post(f"{url}/chat/completions", data=_BODY) as response:
                async for _ in response.content.iter_any():
                    pass

        return await _send(ask, requests, in_flight)


async def _with_httpx2(url: str, requests: int, in_flight: int) -> float:
    import httpx2

    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(limits=limits, headers=_HEADERS, timeout=60) as client:

        async def ask() -> None:
            target = f"{url}/chat/completions"
            async with client.stream("POST", target, content=_BODY) as response:
                async for _ in response.aiter_raw():
                    pass

        return await _send(ask, requests, in_flight)


def _main(client: str, url: str, requests: str, in_flight: str, folder: str) -> None:
    recorded = client == "latspan"
    if recorded:
        import latspan

        latspan.configure(
            record_dir=folder,
            record_rate_limit=None,
            export_enabled=False,
            keep_records=0,
            watch_event_loop=False,
        )
    clients = {
        "latspan": _with_latspan,
        "aiohttp": _with_aiohttp,
        "httpx2": _with_httpx2,
    }
    taken = asyncio.run(clients[client](url, int(requests), int(in_flight)))
    if recorded:
        import latspan

        began = time.process_time()
        latspan.shutdown()
        taken += time.process_time() - began
    sys.stdout.write(f"{taken}\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
