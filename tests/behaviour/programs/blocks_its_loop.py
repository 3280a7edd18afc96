"""
Answers 20 questions, four at once, on an asyncio loop: ``python blocks_its_loop.py``.

As in a newcomer's program, a call rewrites the question, and a stage computes on the loop, which
delays the other three requests.
The model is at ``OPENAI_BASE_URL``.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import openai

import latspan

QUESTIONS = 20
AT_ONCE = 4
RETRIEVE_S = 0.03
RERANK_S = 0.1
MESSAGES: Any = [{"role": "user", "content": "Why?"}]


@latspan.stage("retrieve")
async def retrieve() -> None:
    await asyncio.sleep(RETRIEVE_S)


@latspan.stage("rerank")
def rerank() -> None:
    until_s = time.perf_counter() + RERANK_S
    while time.perf_counter() < until_s:
        pass


async def answer(model: openai.AsyncOpenAI) -> None:
    with latspan.request("answer a question"):
        await model.chat.completions.create(model="m", messages=MESSAGES)
        await retrieve()
        rerank()
        async for _ in await model.chat.completions.create(
            model="m", messages=MESSAGES, stream=True
        ):
            pass


async def main() -> None:
    async with openai.AsyncOpenAI(api_key="none") as model:
        for _ in range(QUESTIONS // AT_ONCE):
            await asyncio.gather(*(answer(model) for _ in range(AT_ONCE)))


asyncio.run(main())
