"""The same application over ASGI: the server's lifespan configures latspan and shuts it down."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import latspan

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Respond with the worker's process ID, wait, and end."""
    if scope["type"] == "lifespan":
        await live(receive, send)
        return
    with latspan.stage("retrieve"):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = f"{os.getpid()}\n".encode()
        await send({"type": "http.response.body", "body": body, "more_body": True})
        # The worker serves no other request meanwhile, so the next one reaches the other worker.
        Path(scope["path"]).read_bytes()  # noqa: ASYNC240
    await send({"type": "http.response.body"})


async def live(receive: Receive, send: Send) -> None:
    while True:
        said = (await receive())["type"]
        if said == "lifespan.startup":
            latspan.configure()
        else:
            latspan.shutdown()
        await send({"type": f"{said}.complete"})
        if said == "lifespan.shutdown":
            return
