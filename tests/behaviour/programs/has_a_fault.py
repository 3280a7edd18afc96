"""
An assistant with one fault in its own code: ``has_a_fault.py FAULT REQUESTS``.

It rewrites the question with a call, retrieves and reranks documents, and streams the answer. The
model is at ``OPENAI_BASE_URL``. The fault is the name of a function below, or ``none``.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

import openai

import latspan

FAULT, REQUESTS = sys.argv[1], int(sys.argv[2])
SLOW_S: Final = 0.12
AT_ONCE: Final = 2
PROMPT: Final = "Answer from the documents: "

model = openai.AsyncOpenAI(api_key="none", max_retries=0)


async def rewritten(question: str) -> str:
    # The fault: each part of the question is rewritten by a call of its own, one after another.
    for _ in range(6 if FAULT == "rewritten" else 1):
        completion = await model.chat.completions.create(
            model="rewriter",
            messages=[{"role": "user", "content": question}],
            extra_headers={"x-latspan-script": "rewrites"},
        )
        question = completion.choices[0].message.content or question
    return question


@latspan.stage("retrieve")
async def retrieved(question: str) -> list[str]:
    # The fault: an index that answers slowly.
    await asyncio.sleep(SLOW_S if FAULT == "retrieved" else 0.002)
    return [f"a document on {question}", "another one"]


@latspan.stage("rerank", kind="retrieve")
async def reranked(documents: list[str]) -> list[str]:
    # The fault: the computation occupies the event loop.
    until = time.perf_counter() + (SLOW_S if FAULT == "reranked" else 0.002)
    while time.perf_counter() < until:
        documents = sorted(documents)
    return documents


async def answered(documents: list[str], *, is_open: bool) -> None:
    # The fault: nothing limits the length of the answer to an open question.
    rambles = is_open and FAULT == "answered"
    stream = await model.chat.completions.create(
        model="writer",
        messages=[{"role": "user", "content": PROMPT + " ".join(documents)}],
        stream=True,
        stream_options={"include_usage": True},
        extra_headers={"x-latspan-script": "rambles" if rambles else "answers"},
    )
    async for _ in stream:
        pass


async def user(questions: list[int]) -> None:
    while questions:
        number = questions.pop()
        with latspan.request("answer"):
            documents = await retrieved(await rewritten(f"{number}?"))
            await answered(await reranked(documents), is_open=number % 5 < 2)


async def main() -> None:
    questions = list(range(REQUESTS))
    await asyncio.gather(*(user(questions) for _ in range(AT_ONCE)))


asyncio.run(main())
