"""Streams a chat through LiteLLM or LangChain, and prints what latspan recorded of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib import import_module
from typing import Any

import latspan
from latspan.testing import capture

QUESTION = "hello"


def through_litellm(base_url: str, *, asynchronous: bool) -> int:
    """Return the number of chunks from LiteLLM."""
    # Otherwise LiteLLM downloads a list of prices.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    module: Any = import_module("litellm")
    module.telemetry = False
    asked: Any = {
        "model": "openai/m",
        "messages": [{"role": "user", "content": QUESTION}],
        "api_base": base_url,
        "api_key": "none",
        "stream": True,
    }

    async def read() -> int:
        return len([chunk async for chunk in await module.acompletion(**asked)])

    return asyncio.run(read()) if asynchronous else len(list(module.completion(**asked)))


def through_langchain(base_url: str, *, asynchronous: bool) -> int:
    """Return the number of chunks from LangChain."""
    module: Any = import_module("langchain_openai")
    chat = module.ChatOpenAI(model="m", base_url=base_url, api_key="none", max_retries=0)

    async def read() -> int:
        return len([chunk async for chunk in chat.astream(QUESTION)])

    return asyncio.run(read()) if asynchronous else len(list(chat.stream(QUESTION)))


framework, mode, url = sys.argv[1:]
ask = {"litellm": through_litellm, "langchain": through_langchain}[framework]
latspan.auto_instrument()
with capture() as seen:
    chunks = ask(url, asynchronous=mode == "async")
records = [record for record in seen.records if record.kind == "call"]
document = {
    "chunks": chunks,
    "calls": [(record.name, record.outcome, len(record.chunk_gaps)) for record in records],
    "spans": [span.name for span in seen.spans if span.parent is None],
}
print(json.dumps(document))  # noqa: T201 - what the test reads
