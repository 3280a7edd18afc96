"""A service that retrieves and streams chats: ``asks_several_at_once.py MODEL_URL KEY``."""

from __future__ import annotations

import asyncio
import json
import sys

import openai
import traffic

import latspan

AT_ONCE = 4
QUESTION = "Which part of a slow answer is the longest, and how would you find out? "


async def main(model_url: str, key: str) -> None:
    latspan.auto_instrument()
    latspan.configure(keep_records=None)
    async with openai.AsyncOpenAI(base_url=model_url, api_key=key, max_retries=0) as client:
        # The first chat opens a connection and does not have to queue.
        await answer(client, 0)
        await asyncio.gather(*(answer(client, number) for number in range(1, AT_ONCE + 1)))
    records = [traffic.as_json(record) for record in latspan.snapshot().records]
    latspan.shutdown()
    sys.stdout.write(json.dumps(records))


async def answer(client: openai.AsyncOpenAI, number: int) -> None:
    with latspan.request("answer"):
        with latspan.stage("retrieve"):
            await asyncio.sleep(0.05)
        chunks = await client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": f"{number}: {QUESTION * 4}"}],
            stream=True,
            stream_options={"include_usage": True},
            max_tokens=24,
            temperature=0,
        )
        async for _ in chunks:
            pass


asyncio.run(main(*sys.argv[1:]))
