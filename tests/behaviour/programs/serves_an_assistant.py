"""
An assistant as a newcomer writes it: ``uvicorn serves_an_assistant:app``.

It rewrites the question with a call that does not stream, retrieves and reranks documents, and
streams a chat that first uses a tool. The model is at ``OPENAI_BASE_URL``. The program names its
stages and its tenants, and neither configures latspan nor opens a request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import openai
from fastapi import FastAPI, Header
from fastapi.responses import StreamingResponse

import latspan

app = FastAPI()
model = openai.AsyncOpenAI(api_key="none", max_retries=0)


def playing(script: str) -> dict[str, str]:
    """Return the header by which the scripted server selects its response."""
    return {"x-latspan-script": script}


async def rewritten(question: str) -> str:
    completion = await model.chat.completions.create(
        model="rewriter",
        messages=[{"role": "user", "content": f"Rewrite: {question}"}],
        extra_headers=playing("rewrites"),
    )
    return completion.choices[0].message.content or ""


@latspan.stage("retrieve")
async def retrieved(question: str) -> list[str]:
    return [f"a document on {question}", "another one"]


@latspan.stage("rerank", kind="retrieve")
def reranked(documents: list[str]) -> list[str]:
    return sorted(documents)


@latspan.stage("look up")
async def looked_up(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "42"}


async def turn(messages: list[Any]) -> AsyncIterator[str]:
    """Stream one answer of the model; if it requests a tool, add the result to the messages."""
    has_result = any(message["role"] == "tool" for message in messages)
    call_id = ""
    arguments = ""
    stream = await model.chat.completions.create(
        model="writer",
        messages=messages,
        stream=True,
        extra_headers=playing("answers" if has_result else "requests a tool"),
    )
    async for chunk in stream:
        for choice in chunk.choices:
            yield choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                call_id = call.id or call_id
                arguments += (call.function.arguments if call.function else None) or ""
    if call_id:
        function = {"name": "look_up", "arguments": arguments}
        requested = {"id": call_id, "type": "function", "function": function}
        messages.append({"role": "assistant", "tool_calls": [requested]})
        messages.append(await looked_up(call_id))


async def answer(question: str, tenant: str) -> StreamingResponse:
    latspan.annotate(tenant=tenant)
    with latspan.attributes(tenant=tenant):
        documents = reranked(await retrieved(await rewritten(question)))

    async def body() -> AsyncIterator[str]:
        messages: list[Any] = [{"role": "user", "content": f"{documents} {question}"}]
        with latspan.attributes(tenant=tenant):
            turns = 0
            while len(messages) > turns:
                turns = len(messages)
                async for text in turn(messages):
                    yield text

    return StreamingResponse(body(), media_type="text/plain")


@app.get("/ask/{question}")
async def ask(question: str, tenant: Annotated[str, Header()]) -> StreamingResponse:
    return await answer(question, tenant)


@app.get("/support/{question}")
async def support(question: str, tenant: Annotated[str, Header()]) -> StreamingResponse:
    return await answer(question, tenant)
