"""A web application, over ASGI and over WSGI, that records its requests and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import latspan

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def asgi(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Read the named file, record this, and respond."""
    if scope["type"] != "http":
        # A server of ASGI continues without the lifespan.
        raise NotImplementedError(scope["type"])
    with latspan.request("answer"):
        # The worker serves no other request meanwhile, so the next one reaches the other worker.
        Path(scope["path"]).read_bytes()  # noqa: ASYNC240
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body"})


def wsgi(
    environ: dict[str, object], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> list[bytes]:
    """Read the named file, record this, and respond."""
    with latspan.request("answer"):
        Path(str(environ["PATH_INFO"])).read_bytes()
    start_response("200 OK", [("content-type", "text/plain")])
    return [b"done\n"]
