"""An application without any latspan code: ``asks_a_model.py MODEL_URL``."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import openai

MODEL = "small"


def ask(client: openai.OpenAI) -> str:
    chunks = client.chat.completions.create(model=MODEL, messages=[], stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def ask_for_all(client: openai.OpenAI) -> str:
    answer = client.chat.completions.create(model=MODEL, messages=[])
    return answer.choices[0].message.content or ""


def ask_and_leave(client: openai.OpenAI) -> str:
    with client.chat.completions.create(model=MODEL, messages=[], stream=True) as chunks:
        return next(iter(chunks)).choices[0].delta.content or ""


def ask_in_vain(client: openai.OpenAI) -> str:
    try:
        return ask(client)
    except openai.InternalServerError as error:
        return f"{error.status_code}"


async def ask_asynchronously(base_url: str) -> str:
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        chunks = await client.chat.completions.create(model=MODEL, messages=[], stream=True)
        said = [chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices]
        return "".join(said)


def main(base_url: str) -> None:
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        print(ask(client))  # noqa: T201
        print(ask_for_all(client))  # noqa: T201
        print(ask_and_leave(client))  # noqa: T201
        print(ask_in_vain(client))  # noqa: T201
        print(ask(client.with_options(max_retries=1)))  # noqa: T201
        with ThreadPoolExecutor(1) as threads:
            print(threads.submit(ask, client).result())  # noqa: T201
    print(asyncio.run(ask_asynchronously(base_url)))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
