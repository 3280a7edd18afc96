"""
An application of FastAPI that answers with a model, and its users.

The users are a process of their own, which is not recorded. The application ends with them.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import sdk_tasks
import uvicorn
from _setting import SETTING
from _work import answer_async, start_background
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import latspan

PLAIN = ("PATH", "HOME", "LANG", "MODEL_URL", "SPARE_URL", "PROGRAM_SETTING")
"""Variables of the users' process, without those that instrument it."""

PADDING = int(SETTING.reader.get("padding", 0)) * " "
"""Text that makes each part of an answer longer."""


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    """Start the work beside the requests."""
    background = start_background()
    yield
    for task in background:
        task.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/chat/{number}/{turn}")
async def chat(number: int, turn: int) -> StreamingResponse:
    """Answer in the event loop."""
    request = SETTING.request(number, turn)

    async def body() -> AsyncIterator[str]:
        latspan.annotate(request.others, route=request.route, tenant=request.tenant)
        async for text in answer_async(request, sdk_tasks.send, sdk_tasks.ERRORS):
            yield f"data: {text}{PADDING}\n\n"

    return StreamingResponse(body(), media_type="text/event-stream")


async def serve_users() -> int:
    """Serve until the users have ended, and return the exit code of their process."""
    listening = socket.create_server(("127.0.0.1", 0))
    if buffer := SETTING.reader.get("buffer"):
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(buffer))
    port = listening.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    users = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("_users.py")),
        str(port),
        env={name: os.environ[name] for name in PLAIN if name in os.environ},
    )
    failed = await users.wait()
    server.should_exit = True
    await serving
    return failed


if __name__ == "__main__":
    sys.exit(asyncio.run(serve_users()))
