"""A web application that streams a chat, and its client, in one process: ``… MODEL_URL``."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import AsyncGenerator

import httpx
import openai
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import latspan
from latspan_instrumentation.asgi import LatspanMiddleware

ROOM = "12345"


def application(model: openai.AsyncOpenAI) -> FastAPI:
    app = FastAPI()
    app.add_middleware(LatspanMiddleware)

    @app.post("/rooms/{room}/chat")
    async def chat(room: str) -> StreamingResponse:
        with latspan.stage("auth"):
            assert room == ROOM
        with latspan.stage("rerank", kind="retrieve"):
            sum(range(10_000))
        return StreamingResponse(answer())

    async def answer() -> AsyncGenerator[str]:
        async with await model.chat.completions.create(
            model="small", messages=[], stream=True
        ) as chunks:
            async for chunk in chunks:
                if chunk.choices:
                    yield chunk.choices[0].delta.content or ""
        with latspan.stage("moderate", kind="safety"):
            sum(range(10_000))

    return app


def main(model_url: str) -> None:
    latspan.auto_instrument()
    latspan.configure(keep_records=None)
    model = openai.AsyncOpenAI(base_url=model_url, api_key="none", max_retries=0)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(model), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/rooms/{ROOM}/chat?turn=678"
    with latspan.request("evening"), httpx.Client() as client:
        client.post(url)
    server.should_exit = True
    thread.join()
    listener.close()
    (trace_id,) = {f"{record.trace_id:032x}" for record in latspan.snapshot().records}
    latspan.shutdown()
    sys.stdout.write(trace_id)


main(*sys.argv[1:])
