"""
A web application that streams chats: ``uvicorn serves_chats:application``.

The model is at ``MODEL_URL``. At its end, the application writes its spans to the file ``COPY``. If
the model fails, the application apologises, and its own response is a success.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import openai
import spans_kept
from fastapi import FastAPI

import latspan
from latspan_instrumentation.asgi import LatspanMiddleware


@asynccontextmanager
async def live(_: FastAPI) -> AsyncGenerator[None]:
    latspan.auto_instrument()
    latspan.configure(set_global_provider=True)
    kept = spans_kept.Kept()
    yield
    kept.send_and_write(Path(os.environ["COPY"]))
    latspan.shutdown()


application = FastAPI(lifespan=live)
application.add_middleware(LatspanMiddleware)
model = openai.AsyncOpenAI(base_url=os.environ["MODEL_URL"], api_key="none", max_retries=0)


@application.post("/chat")
async def chat() -> str:
    """Return the model's text."""
    try:
        chunks = await model.chat.completions.create(model="small", messages=[], stream=True)
        words = [chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices]
    except openai.InternalServerError:
        return "Sorry."
    return "".join(words)
