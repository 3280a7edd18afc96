"""A served request in one process: an ASGI application, a server that is a script, one clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from latspan.testing import Captured, ManualClock, capture
from latspan_instrumentation.asgi import LatspanMiddleware

MS = 1_000_000

ASKED: dict[str, Any] = {
    "type": "http",
    "method": "POST",
    "scheme": "http",
    "path": "/",
    "root_path": "",
    "headers": [],
    "server": ("model.test", 80),
}
"""The scope of a request."""

Message = MutableMapping[str, Any]
App = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass
class Client:
    """
    The far end of one request, as the ASGI server shows it.

    Args:
        clock: Goes on while a part is written.
        takes_ms: How long each part of the body takes to be written.
        leaves_after: After how many parts it goes away; ``None`` for never.
    """

    clock: ManualClock
    takes_ms: int = 0
    leaves_after: int | None = None
    sent: list[Message] = field(default_factory=list[Message])
    received: list[Message] = field(default_factory=list[Message])

    @property
    def body(self) -> bytes:
        """What it had of the answer."""
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def headers(self) -> dict[bytes, bytes]:
        """Of the answer."""
        (head,) = [each for each in self.sent if each["type"] == "http.response.start"]
        return dict(head["headers"])

    async def receive(self) -> Message:
        """Give the request, and then that it has gone."""
        self.received.append({})
        if len(self.received) == 1:
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a message of the answer."""
        if message["type"] == "http.response.body":
            parts = sum(each["type"] == "http.response.body" for each in self.sent)
            if self.leaves_after is not None and parts >= self.leaves_after:
                raise OSError("the client has gone")
            self.clock.advance(self.takes_ms * MS)
        self.sent.append(message)


@dataclass(frozen=True)
class Server:
    """Serves requests of an application behind the middleware."""

    clock: ManualClock
    seen: Captured

    def serve(
        self,
        app: App,
        client: Client | None = None,
        *,
        path: str = "/chat",
        headers: Sequence[tuple[bytes, bytes]] = (),
        scope: dict[str, Any] | None = None,
        **options: Any,
    ) -> Client:
        """Serve one request, and return what its client had."""
        client = client or Client(self.clock)
        asked = {**ASKED, "path": path, "headers": [*headers], **(scope or {})}
        asyncio.run(LatspanMiddleware(app, **options)(asked, client.receive, client.send))
        return client


@pytest.fixture
def server() -> Iterator[Server]:
    """Give a server, latspan switched on and all of it in memory."""
    clock = ManualClock()
    with capture(clock=clock) as seen:
        yield Server(clock, seen)


def answering(*parts: bytes, status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()) -> App:
    """Return an application that answers with ``parts``."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        # It reads nothing: an application that has read the request would read a disconnect.
        await send({"type": "http.response.start", "status": status, "headers": [*headers]})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app
