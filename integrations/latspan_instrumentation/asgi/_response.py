"""
A response, tracked as the application sends it message by message, and the headers of any message.

A response is one ``http.response.start`` and any number of ``http.response.body`` messages. If
headers are held, the start waits in ``_head`` until the first part that is not empty or is the
last, or until a message of another type. A held start must always be sent before anything else:
every path calls ``let_go`` first. Whatever the application sends in a wrong order is passed on, so
that the server raises its own error.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final

from latspan._live.instrument import ServerRequest, ServerTimingHeader, handle_internal_errors

Message = MutableMapping[str, Any]

_WHOLE_BODIES: Final = frozenset({"http.response.pathsend", "http.response.zerocopysend"})
"""Server extensions that send a whole body without passing its bytes in a message."""
_BODILESS: Final = frozenset({204, 205, 304})
"""Status codes of responses without a body (RFC 9110)."""
_PARTIAL: Final = 206
_FIXED: Final = ("content-digest", "repr-digest", "digest", "content-md5", "content-range")
"""Headers that describe the bytes of a body, which may then not be changed."""
_EVENT_ENDS: Final = (b"\n\n", b"\r\r", b"\r\n\r\n")
"""Blank lines, which end an event according to the specification of event streams."""


class TrackedResponse:
    """
    The response to one request.

    Args:
        served: The request.
        send: The server's ``send``.
        timings: The configured ``Server-Timing`` header.
        hold_headers: Whether the headers of a stream wait for the first part of its body.
        method: The HTTP method.
        tracks: Whether the parts of the body are recorded; if not, a middleware further out does
            that, and this object only adds the timings.
    """

    __slots__ = (
        "_end",
        "_head",
        "_holds",
        "_method",
        "_send",
        "_served",
        "_streams",
        "_timings",
        "_tracks",
        "gone",
    )

    def __init__(
        self,
        served: ServerRequest,
        send: Callable[[Message], Awaitable[None]],
        timings: ServerTimingHeader,
        *,
        hold_headers: bool,
        method: str,
        tracks: bool = True,
    ) -> None:
        self._served = served
        self._method = method
        self._tracks = tracks
        self._send = send
        self._timings = timings
        self._holds = hold_headers and bool(timings.reveals)
        self._head: Message | None = None
        self._streams = False
        # The last bytes of the body so far. A stream begins as if an event had just ended.
        self._end = _EVENT_ENDS[0]
        self.gone = False
        """Whether the client disconnected before the response was complete."""

    async def send(self, message: Message) -> None:
        """Pass a message of the application to the server."""
        kind = message.get("type")
        if kind == "http.response.body":
            await self._send_part(message)
        elif kind == "http.response.start":
            await self._send_head(message)
        else:
            await self.let_go()
            await self._hand_over(message)
            if kind in _WHOLE_BODIES and self._tracks:
                self._served.sent()

    async def let_go(self) -> None:
        """Send the response headers if they were held."""
        head, self._head = self._head, None
        if head is not None:
            await self._hand_over(self._with_timings(head))

    async def _send_head(self, message: Message) -> None:
        # A second `http.response.start` is passed on, so that the server raises the error.
        await self.let_go()
        given = message.get("headers", ())
        if isinstance(given, Iterator):
            # An iterator can be read only once, and the server must read it too.
            message = {**message, "headers": [*given]}
        headers: Mapping[str, str] = {}
        with handle_internal_errors("the head of a response"):
            headers = as_text(message.get("headers", ()))
        status = message.get("status")
        if isinstance(status, int):
            self._served.answering(status, headers)
        if self._holds and "content-length" not in headers:
            events = headers.get("content-type", "").lower().startswith("text/event-stream")
            self._streams = events and self._may_grow(status, headers)
            self._head = message
        else:
            await self._hand_over(self._with_timings(message))

    async def _send_part(self, message: Message) -> None:
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if self._head is not None and not body and not is_last:
            # The part is empty, and a server does not accept a body part before the headers.
            return
        await self.let_go()
        if self._streams:
            self._end = (self._end + bytes(body[-4:]))[-4:]
            if is_last:
                message = {**message, "body": bytes(body) + self._comment()}
        before_ns = self._served.now()
        await self._hand_over(message)
        if not self._tracks:
            return
        self._served.wrote(before_ns, begins_a_stream=bool(body) and not is_last)
        if is_last and self.gone:
            self._served.disconnected()
        elif is_last:
            # Starlette sends the response to an exception while it handles the exception. An
            # exception with a status code is a way to respond, and its status says as much.
            error = sys.exception()
            self._served.sent(None if hasattr(error, "status_code") else error)

    def _may_grow(self, status: object, headers: Mapping[str, str]) -> bool:
        """Return whether a comment may follow the last event: no body is fixed by its headers."""
        if self._method == "HEAD" or status in _BODILESS or status == _PARTIAL:
            return False
        # Plain text must not be appended to a compressed body.
        is_plain = headers.get("content-encoding", "identity").lower() == "identity"
        is_fixed = "no-transform" in headers.get("cache-control", "").lower()
        return is_plain and not is_fixed and all(name not in headers for name in _FIXED)

    async def _hand_over(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:
            # The ASGI specification: servers raise `OSError` if the client has disconnected.
            self.gone = True
            raise

    def _comment(self) -> bytes:
        """Return a comment with the final times, to send after the last event of a stream."""
        # In the middle of an event, the comment would become part of the event or end it.
        timings = self._timings.of_answer(self._served) if self._end.endswith(_EVENT_ENDS) else ""
        return f": {ServerTimingHeader.header} {timings}\n\n".encode() if timings else b""

    def _with_timings(self, head: Message) -> Message:
        """Return the head with a ``Server-Timing`` header added, if there are times to report."""
        timings = self._timings.of_answer(self._served)
        if not timings:
            return head
        field = (ServerTimingHeader.header.encode(), timings.encode())
        return {**head, "headers": [*head.get("headers", ()), field]}


def as_text(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by lower-case name; the last one wins if a name occurs twice."""
    return {
        bytes(name).decode("latin-1").lower(): bytes(value).decode("latin-1")
        for name, value in pairs
    }
