"""
A program that calls models at planned times through the OpenAI SDK.

The variable ``PLAN_FILE`` names a JSON file with the plan, and ``MODEL_URLS`` holds the addresses
of the servers (JSON).
"""

from __future__ import annotations

import asyncio
import json
import os
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import openai

import latspan

_PLAN: Final = json.loads(Path(os.environ["PLAN_FILE"]).read_text())
_CLIENTS: Final[list[Any]] = [
    openai.AsyncOpenAI(
        base_url=f"{url}/v1",
        api_key="none",
        timeout=_PLAN["timeout_s"],
        max_retries=_PLAN["retries"],
    )
    for url in json.loads(os.environ["MODEL_URLS"])
]


@cache
def _text(seed: str, words: int) -> str:
    random = Random(seed)  # noqa: S311 - a benchmark
    return " ".join(f"w{random.randrange(100_000)}" for _ in range(words))


def _body(number: int, call: dict[str, Any]) -> dict[str, Any]:
    beginning = _text(call["prefix"], call["prefix_words"])
    body: dict[str, Any] = {
        "model": call["model"],
        "messages": [
            {"role": "system", "content": beginning},
            {"role": "user", "content": _text(f"call {number}", call["words"])},
        ],
        "max_tokens": call["tokens"],
    }
    if call["user"]:
        body["user"] = call["user"]
    if call["effort"]:
        body["reasoning_effort"] = call["effort"]
    return body


async def _send(number: int, call: dict[str, Any]) -> None:
    await asyncio.sleep(call["at_s"])
    client = _CLIENTS[call["server"]]
    attributes = dict(call["attributes"])
    places = {name: attributes.pop(name, None) for name in ("route", "tenant")}
    with latspan.attributes(attributes, **places):
        try:
            if not call["streams"]:
                await client.chat.completions.create(**_body(number, call))
                return
            stream = await client.chat.completions.create(
                **_body(number, call), stream=True, stream_options={"include_usage": True}
            )
            async for _ in stream:
                pass
        except openai.APIError:
            return


async def _main() -> None:
    for client in _CLIENTS:
        await client.models.list()
    await asyncio.gather(*(_send(number, call) for number, call in enumerate(_PLAN["calls"])))


if __name__ == "__main__":
    asyncio.run(_main())
