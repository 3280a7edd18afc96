"""
Incremental reader of one HTTP/1.1 response. It knows no socket and no clock.

A response is read in order: head, body, and after a chunked body the trailer. The head of a
response with an informational status (1xx) is skipped. The end of the body is defined by the first
of these that applies: a status that allows no body, ``Transfer-Encoding: chunked``,
``Content-Length``, or the end of the connection.

Source: RFC 9112, sections 6.3 (message body length) and 7.1 (chunked transfer coding).
"""

from __future__ import annotations

from typing import Final

__all__ = ["MalformedResponseError", "ResponseReader"]

_LONGEST_HEAD: Final = 1 << 17
"""Maximum size of a head in bytes; aiohttp and httpx accept less."""

_LONGEST_SIZE_LINE: Final = 1 << 12
_INFORMATIONAL: Final = range(100, 200)
_SWITCHING_PROTOCOLS: Final = 101
_WITHOUT_BODY: Final = frozenset({204, 304})


class MalformedResponseError(Exception):
    """The bytes that a server sent are not an HTTP/1.1 response."""


class ResponseReader:
    """Reader of one response to a POST request."""

    __slots__ = (
        "_buffer",
        "_chunked",
        "_in_trailer",
        "_left",
        "complete",
        "head_is_complete",
        "headers",
        "keeps_alive",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """Headers by their names in lower case; the values of repeated ones are joined."""
        self.head_is_complete = False
        self.complete = False
        """Whether the last byte of the response has been read."""
        self.keeps_alive = True
        """Whether the connection can be used for another request."""
        self._buffer = b""
        self._chunked = False
        # Bytes left of the body or of the current chunk. `None`: until the connection ends or,
        # in a chunked body, at the size of the next chunk.
        self._left: int | None = None
        self._in_trailer = False

    def feed(self, data: bytes) -> bytes:
        """
        Return the part of the body that ``data`` contains, without its chunked coding.

        Raises:
            MalformedResponseError: ``data`` does not continue a response.
        """
        if self.complete:
            raise MalformedResponseError("data after the end of the response")
        if not self.head_is_complete:
            data = self._read_head(self._buffer + data)
            if not self.head_is_complete:
                return b""
        if self._chunked:
            return self._feed_chunked(data)
        if self._left is None:
            return data
        body, self._left = data[: self._left], self._left - len(data)
        if self._left < 0:
            raise MalformedResponseError("the body is longer than its Content-Length")
        self.complete = not self._left
        return body

    def end_of_connection(self) -> bool:
        """Return whether the response is complete, now that the connection has ended."""
        if self.head_is_complete and not self._chunked and self._left is None:
            self.complete = True
        return self.complete

    def _read_head(self, data: bytes) -> bytes:
        """Read the head if it is complete, and return what follows it."""
        while True:
            head, end, rest = data.partition(b"\r\n\r\n")
            if not end:
                if len(data) > _LONGEST_HEAD or not data[:5].startswith(b"HTTP/"[: len(data)]):
                    raise MalformedResponseError("the head is not that of an HTTP/1.1 response")
                self._buffer = data
                return b""
            self._parse(head)
            if self.status in _INFORMATIONAL and self.status != _SWITCHING_PROTOCOLS:
                data = rest
                continue
            self._buffer = b""
            self._find_body_length()
            if self.complete and rest:
                raise MalformedResponseError("data after a response without a body")
            return rest

    def _parse(self, head: bytes) -> None:
        status_line, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = status_line.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not code.isdecimal():
            raise MalformedResponseError("the status line is not that of an HTTP/1.1 response")
        self.status = int(code)
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise MalformedResponseError("a header line has no colon")
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self.headers = headers
        options = {each.strip() for each in headers.get("connection", "").lower().split(",")}
        self.keeps_alive = "close" not in options and (
            version != "HTTP/1.0" or "keep-alive" in options
        )

    def _find_body_length(self) -> None:
        self.head_is_complete = True
        if self.status in _WITHOUT_BODY:
            self.complete = True
        elif self.headers.get("transfer-encoding", "").lower().rpartition(",")[2].strip() == (
            "chunked"
        ):
            self._chunked = True
        elif "content-length" in self.headers:
            # A proxy may repeat the header; RFC 9110, section 8.6, allows equal values.
            lengths = {each.strip() for each in self.headers["content-length"].split(",")}
            length = lengths.pop()
            if lengths or not length.isdecimal():
                raise MalformedResponseError("the Content-Length is not a number")
            self._left = int(length)
            self.complete = not self._left
        else:
            self.keeps_alive = False

    def _feed_chunked(self, data: bytes) -> bytes:
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        elif self._left is None and data[-2:] == b"\r\n":
            # Fast path for the common read: exactly one chunk.
            end = data.find(b"\r\n")
            if len(data) - end - 4 == _size_in(data[:end]) > 0:
                return data[end + 2 : -2]
        parts: list[bytes] = []
        at = 0
        while at < len(data):
            if self._left is None:
                end = data.find(b"\r\n", at)
                if end < 0:
                    if len(data) - at > _LONGEST_SIZE_LINE:
                        raise MalformedResponseError("the size of a chunk is not a number")
                    break
                line, at = data[at:end], end + 2
                if self._in_trailer:
                    if not line:
                        self._ends_at(at, len(data))
                    continue
                size = _size_in(line)
                if size < 0:
                    raise MalformedResponseError("the size of a chunk is not a number")
                if size:
                    self._left = size
                else:
                    self._in_trailer = True
            elif self._left:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
            else:
                if len(data) - at < 2:
                    break
                if data[at : at + 2] != b"\r\n":
                    raise MalformedResponseError("a chunk is longer than its size")
                at += 2
                self._left = None
        self._buffer = data[at:]
        return b"".join(parts)

    def _ends_at(self, at: int, length: int) -> None:
        self.complete = True
        if at != length:
            raise MalformedResponseError("data after the end of the response")


def _size_in(line: bytes) -> int:
    """Return the size in the first line of a chunk, and -1 if it is not a number."""
    digits = line.partition(b";")[0].strip()
    try:
        # `int` also accepts a sign and underscores.
        return int(digits, 16) if digits.isalnum() else -1
    except ValueError:
        return -1
