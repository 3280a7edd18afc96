"""
A model server in front of llama.cpp, with every stage of a request named.

It speaks the OpenAI API: authentication, tokenizing, a safety check, admission control, a queue, a
fallback, and streams. Run it in front of a llama.cpp server:

    python reference_server.py --model http://127.0.0.1:8080 --port 8000 --key secret

Source of what it does with an overload: Google, "Site Reliability Engineering", chapter 21.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

import httpx2
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI
from starlette.types import Receive, Scope, Send

import latspan
from latspan_instrumentation.asgi import LatspanMiddleware


@dataclass
class ReferenceServer:
    """
    The server: one method per stage.

    Args:
        model: URL of a llama.cpp server.
        key: API key that every client must send.
        name: Name of the model in traces and metrics; never a name that a client sends.
        fallback: URL of a second server, used if the queue is long; the first one if empty.
        slots: How many requests are worked on at once.
        longest_queue: How many may wait; the next is turned away.
        hurried_from: How many wait before answers get worse: no safety check, the fallback.
        longest_answer: How many tokens an answer has at most.
        forbidden: Words that no prompt may hold.
    """

    model: str
    key: str
    name: str = "smollm2-135m"
    fallback: str = ""
    slots: int = 2
    longest_queue: int = 64
    hurried_from: int = 48
    longest_answer: int = 64
    forbidden: Sequence[str] = ("thermite",)
    waiting: int = 0
    running: int = 0
    turns: asyncio.Semaphore = field(init=False)
    http: httpx2.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        self.turns = asyncio.Semaphore(self.slots)
        # llama.cpp closes a connection that was idle for 5 s, perhaps just when it is used again.
        limits = httpx2.Limits(keepalive_expiry=4)
        self.http = httpx2.AsyncClient(timeout=60, limits=limits)
        self.models = {
            url: AsyncOpenAI(base_url=f"{url}/v1", api_key="none", http_client=self.http)
            for url in {self.model, self.fallback or self.model}
        }

    @latspan.stage("auth")
    async def authenticate(self, request: Request) -> None:
        """Reject requests without the key."""
        brought = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(brought, f"Bearer {self.key}".encode()):
            raise HTTPException(HTTPStatus.UNAUTHORIZED)

    @latspan.stage("parse")
    async def parse(self, request: Request) -> dict[str, Any]:
        """Read what is asked, and allow no longer an answer than there is time for."""
        chat = await request.json()
        asked = chat.get("max_tokens") or self.longest_answer
        if asked > self.longest_answer:
            latspan.mark_degraded("output_cut")
        return {**chat, "max_tokens": min(asked, self.longest_answer), "stream": True}

    @latspan.stage("tokenize")
    async def tokenize(self, prompt: str) -> int:
        """Return how many tokens the prompt has."""
        answer = await self.http.post(f"{self.model}/tokenize", json={"content": prompt})
        return len(answer.json()["tokens"])

    @latspan.stage("safety")
    async def check(self, prompt: str) -> None:
        """Reject prompts with a forbidden word."""
        if any(word in prompt.lower() for word in self.forbidden):
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY)

    @latspan.stage("route")
    async def route(self) -> str:
        """Choose who answers, or turn the request away before any work is done."""
        if self.waiting >= self.longest_queue:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})
        if self.waiting >= self.hurried_from and self.fallback:
            latspan.mark_degraded("fallback_model")
            return self.fallback
        return self.model

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait for a slot, and have it for as long as the block takes."""
        await self.wait()
        self.running += 1
        latspan.annotate(requests_running=self.running, requests_waiting=self.waiting)
        try:
            yield
        finally:
            self.running -= 1
            self.turns.release()

    @latspan.stage("queue")
    async def wait(self) -> None:
        """Wait for a slot."""
        self.waiting += 1
        try:
            await self.turns.acquire()
        finally:
            self.waiting -= 1

    async def tokens(self, url: str, chat: dict[str, Any]) -> AsyncGenerator[str]:
        """Have the model's tokens, one at a time."""
        completions = self.models[url].chat.completions
        # What the SDK knows no parameter for goes along as it came.
        async with await completions.create(
            model=chat["model"], messages=chat["messages"], stream=True, extra_body=chat
        ) as stream:
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    yield chunk.choices[0].delta.content

    async def events(self, url: str, chat: dict[str, Any]) -> AsyncGenerator[str]:
        """Answer with a stream of events, the last of which says where the time went."""
        async with (
            self.turn(),
            aclosing(latspan.track_tokens(self.tokens(url, chat))) as tokens,
        ):
            async for text in tokens:
                yield event(chat, {"content": text})
        took = latspan.handoff(waits=None).server_timing()
        yield event(chat, {}, finish_reason="stop", server_timing=took)
        yield "data: [DONE]\n\n"

    async def answer(self, request: Request) -> StreamingResponse:
        """Serve one chat."""
        await self.authenticate(request)
        chat = await self.parse(request)
        prompt = "\n".join(message["content"] for message in chat["messages"])
        url = await self.route()
        latspan.annotate(
            model=self.name,
            provider="llama_cpp",
            input_tokens=await self.tokenize(prompt),
        )
        if self.waiting < self.hurried_from:
            await self.check(prompt)
        else:
            latspan.mark_degraded("feature_off")
        return Events(self.events(url, chat), media_type="text/event-stream")


class Events(StreamingResponse):
    """A stream that ends with its client: left to itself it would keep its slot for a while."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and close what gives its events, whether it came to its end or not."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await cast("AsyncGenerator[str]", self.body_iterator).aclose()


def event(
    chat: dict[str, Any], delta: dict[str, str], finish_reason: str | None = None, **more: Any
) -> str:
    """Return one event of the OpenAI API's chat stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "chat", "object": "chat.completion.chunk", "created": 0, **more}
    return f"data: {json.dumps({**chunk, 'model': chat['model'], 'choices': [choice]})}\n\n"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:  # noqa: ARG001
    """Send the last spans before uvicorn ends the process, for it runs no exit handlers."""
    latspan.configure(service_name="reference-server")
    yield
    latspan.shutdown()


def application(server: ReferenceServer) -> FastAPI:
    """Return the server as an ASGI application, followed by latspan."""
    app = FastAPI(lifespan=lifespan)
    app.add_middleware(LatspanMiddleware, server_timing=True, hold_headers=True)
    app.post("/v1/chat/completions")(server.answer)
    return app


def main() -> None:
    """Serve until the process is stopped."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--model", required=True, help="URL of a llama.cpp server")
    arguments.add_argument("--key", required=True, help="the API key that clients bring")
    arguments.add_argument("--port", type=int, default=8000)
    given = arguments.parse_args()
    latspan.auto_instrument()
    app = application(ReferenceServer(given.model, given.key))
    uvicorn.run(app, host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
