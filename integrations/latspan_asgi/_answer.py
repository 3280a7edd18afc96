"""An answer as the application sends it, message by message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final

from latspan.integrations import ServerRequest, ServerTimingHeader, handle_internal_errors
from latspan_asgi._headers import as_text

__all__ = ["Answer"]

Message = MutableMapping[str, Any]

_WHOLE_BODIES: Final = frozenset({"http.response.pathsend", "http.response.zerocopysend"})
"""Extensions of servers: a body that is sent in another way than by its bytes."""
_EVENT_ENDS: Final = (b"\n\n", b"\r\r", b"\r\n\r\n")
"""A blank line, says the specification of event streams."""


class Answer:
    """
    The answer to one request.

    Args:
        served: The request.
        send: The server's own.
        timings: What is told of it.
        hold_headers: Whether a stream's head waits for the first part of its body.
    """

    __slots__ = ("_end", "_head", "_holds", "_send", "_served", "_streams", "_timings", "gone")

    def __init__(
        self,
        served: ServerRequest,
        send: Callable[[Message], Awaitable[None]],
        timings: ServerTimingHeader,
        *,
        hold_headers: bool,
    ) -> None:
        self._served = served
        self._send = send
        self._timings = timings
        self._holds = hold_headers and bool(timings.reveals)
        self._head: Message | None = None
        self._streams = False
        # Of the body so far; a stream begins as if an event had ended.
        self._end = _EVENT_ENDS[0]
        self.gone = False
        """Whether the client went away before the answer was whole."""

    async def send(self, message: Message) -> None:
        """Send a message of the application's on to the server."""
        kind = message.get("type")
        if kind == "http.response.body":
            await self._send_part(message)
        elif kind == "http.response.start":
            await self._send_head(message)
        else:
            await self.let_go()
            await self._hand_over(message)
            if kind in _WHOLE_BODIES:
                self._served.sent()

    async def let_go(self) -> None:
        """Send the head, if it was held."""
        head, self._head = self._head, None
        if head is not None:
            await self._hand_over(self._told(head))

    async def _send_head(self, message: Message) -> None:
        # The server says what is wrong with a second one.
        await self.let_go()
        given = message.get("headers", ())
        if isinstance(given, Iterator):
            # It can be read once, and the server reads it too.
            message = {**message, "headers": [*given]}
        headers: Mapping[str, str] = {}
        with handle_internal_errors("the head of an answer"):
            headers = as_text(message.get("headers", ()))
        status = message.get("status")
        if isinstance(status, int):
            self._served.answering(status, headers)
        if self._holds and "content-length" not in headers:
            events = headers.get("content-type", "").lower().startswith("text/event-stream")
            # What is compressed takes no text behind it.
            coding = headers.get("content-encoding", "identity").lower()
            self._streams = events and coding == "identity"
            self._head = message
        else:
            await self._hand_over(self._told(message))

    async def _send_part(self, message: Message) -> None:
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if self._head is not None and not body and not is_last:
            # Nothing yet, and a server takes no part of a body before the head.
            return
        await self.let_go()
        if self._streams:
            self._end = (self._end + bytes(body[-4:]))[-4:]
            if is_last:
                message = {**message, "body": bytes(body) + self._comment()}
        before_ns = self._served.now()
        await self._hand_over(message)
        self._served.wrote(before_ns, begins_a_stream=bool(body) and not is_last)
        if is_last:
            self._served.sent()

    async def _hand_over(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:
            # What servers raise where the client has gone, says the ASGI specification.
            self.gone = True
            raise

    def _comment(self) -> bytes:
        """Return what tells, behind the last event, where the time went in the end."""
        # In the middle of an event it would become a part of it, or end it.
        told = self._timings.of_answer(self._served) if self._end.endswith(_EVENT_ENDS) else ""
        return f": {ServerTimingHeader.header} {told}\n\n".encode() if told else b""

    def _told(self, head: Message) -> Message:
        """Return the head with the header in it, where there is anything to tell."""
        told = self._timings.of_answer(self._served)
        if not told:
            return head
        field = (ServerTimingHeader.header.encode(), told.encode())
        return {**head, "headers": [*head.get("headers", ()), field]}
