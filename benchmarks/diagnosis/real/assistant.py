"""
Assistant on the OpenAI SDK with one fault: ``assistant.py FAULT REQUESTS``.

It streams the answer of a model at one of the URLs in ``ASSISTANT_MODELS``, separated by spaces.
The fault is one of the names in ``FAULTS``, or ``none``. ``latspan run --record`` records it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import time
from contextlib import suppress
from typing import Final

import httpx2
import openai

import latspan

FAULT, REQUESTS = sys.argv[1], int(sys.argv[2])
MODEL: Final = "smollm2-135m"
TOKENS: Final = 16
USERS: Final = {"blocks_its_loop": 2, "has_a_small_pool": 4}
BLOCKED_S: Final = 1.5
SCORED: Final = 1_000_000
CHUNK_S: Final = 0.04

_limits = httpx2.Limits(max_connections=1 if FAULT == "has_a_small_pool" else 100)
models = [
    openai.AsyncOpenAI(
        api_key="none",
        base_url=url,
        max_retries=5,
        http_client=openai.DefaultAsyncHttpxClient(limits=_limits),
    )
    for url in os.environ["ASSISTANT_MODELS"].split()
]


async def _rewritten(number: int) -> None:
    # The fault: parts of the question are rewritten by calls of their own, one after another.
    for part in range(6 if FAULT == "rewrites_too_often" else 0):
        await models[0].chat.completions.create(
            model=MODEL,
            max_tokens=TOKENS,
            messages=[{"role": "user", "content": f"Rewrite {number}, part {part}."}],
        )


@latspan.stage("rerank", kind="retrieve")
async def _reranked(number: int) -> None:
    # The fault: documents are scored with a slow function.
    rounds = SCORED if FAULT == "reranks_slowly" else 1_000
    await asyncio.to_thread(hashlib.pbkdf2_hmac, "sha256", b"%d" % number, b"salt", rounds)


async def _answered(number: int) -> None:
    # The fault: nothing limits the length of the answer to an open question.
    rambles = FAULT == "rambles" and number % 10 < 4
    stream = await models[number % len(models)].chat.completions.create(
        model=MODEL,
        max_tokens=12 * TOKENS if rambles else 4 * TOKENS if FAULT == "streams" else TOKENS,
        messages=[{"role": "user", "content": f"Tell me about river {number}."}],
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    async for _ in stream:
        if FAULT == "reads_slowly":
            await asyncio.sleep(CHUNK_S)


async def _blocking() -> None:
    # The fault: a task computes on the event loop, from time to time.
    while FAULT == "blocks_its_loop":
        until = time.perf_counter() + BLOCKED_S
        while time.perf_counter() < until:
            hashlib.sha256(b"report").digest()
        await asyncio.sleep(0.2)


async def _user(numbers: list[int]) -> None:
    while numbers:
        number = numbers.pop()
        # A request that failed is an outcome in the recording.
        with suppress(openai.APIError), latspan.request("answer"):
            await _rewritten(number)
            await _reranked(number)
            await _answered(number)


async def _main() -> None:
    computing = asyncio.create_task(_blocking())
    numbers = list(range(REQUESTS))
    await asyncio.gather(*(_user(numbers) for _ in range(USERS.get(FAULT, 1))))
    computing.cancel()
    with suppress(asyncio.CancelledError):
        await computing


asyncio.run(_main())
