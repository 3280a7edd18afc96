"""An answer as the application sends it, message by message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from latspan.instrument import Served, Timings, guarded
from latspan_asgi._headers import as_text

__all__ = ["Answer"]

Message = MutableMapping[str, Any]

_WHOLE_BODIES: Final = frozenset({"http.response.pathsend", "http.response.zerocopysend"})
"""Extensions of servers: a body that is sent in another way than by its bytes."""


class Answer:
    """
    The answer to one request.

    Args:
        served: The request.
        send: The server's own.
        timings: What is told of it.
        hold_headers: Whether a stream's head waits for the first part of its body.
    """

    __slots__ = ("_head", "_holds", "_send", "_served", "_streams", "_timings", "gone")

    def __init__(
        self,
        served: Served,
        send: Callable[[Message], Awaitable[None]],
        timings: Timings,
        *,
        hold_headers: bool,
    ) -> None:
        self._served = served
        self._send = send
        self._timings = timings
        self._holds = hold_headers and bool(timings.reveals)
        self._head: Message | None = None
        self._streams = False
        self.gone = False
        """Whether the client went away before the answer was whole."""

    async def send(self, message: Message) -> None:
        """Send a message of the application's on to the server."""
        kind = message["type"]
        if kind == "http.response.body":
            await self._send_part(message)
        elif kind == "http.response.start":
            await self._send_head(message)
        else:
            await self._let_go()
            await self._send(message)
            if kind in _WHOLE_BODIES:
                self._served.sent()

    async def _send_head(self, message: Message) -> None:
        headers: Mapping[str, str] = {}
        with guarded("the head of an answer"):
            headers = as_text(message.get("headers", ()))
        self._served.answering(message["status"], headers)
        if self._holds and "content-length" not in headers:
            self._streams = headers.get("content-type", "").startswith("text/event-stream")
            self._head = message
        else:
            await self._send(self._told(message))

    async def _send_part(self, message: Message) -> None:
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if body or is_last:
            await self._let_go()
        if is_last and self._streams:
            await self._send_comment()
        before_ns = self._served.now()
        try:
            await self._send(message)
        except OSError:
            # What servers raise where the client has gone, says the ASGI specification.
            self.gone = True
            raise
        self._served.wrote(before_ns, begins_a_stream=bool(body) and not is_last)
        if is_last:
            self._served.sent()

    async def _let_go(self) -> None:
        head, self._head = self._head, None
        if head is not None:
            await self._send(self._told(head))

    async def _send_comment(self) -> None:
        """Tell, behind the last event, where the time went in the end."""
        told = self._timings.of_answer(self._served)
        if told:
            comment = f": {Timings.header} {told}\n\n".encode()
            await self._send({"type": "http.response.body", "body": comment, "more_body": True})

    def _told(self, head: Message) -> Message:
        """Return the head with the header in it, where there is anything to tell."""
        told = self._timings.of_answer(self._served)
        if not told:
            return head
        field = (Timings.header.encode(), told.encode())
        return {**head, "headers": [*head.get("headers", ()), field]}
