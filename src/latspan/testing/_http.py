"""
HTTP/1.1 parsing and encoding for a scripted server: requests in, heads and chunks out.

Source: RFC 9112. Request bodies need a ``Content-Length``; every model client sends one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

LAST_CHUNK: Final = b"0\r\n\r\n"

_KNOWN_STATUSES: Final = frozenset(HTTPStatus)


class MalformedRequestError(ValueError):
    """The bytes are not an HTTP/1.1 request that this reader supports."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """
    One received request.

    Args:
        method: ``GET``, ``POST`` …
        path: The request target without its query.
        headers: Names in lower case; the values of a repeated name are joined by a comma.
        body: Content of the request.
        raw: All bytes, head and body.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    raw: bytes

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may serve another request after this one."""
        return self.headers.get("connection", "").lower() != "close"


class RequestReader:
    """Splits the bytes of one connection into requests."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[HttpRequest]:
        """
        Return the requests that ``data`` completes, in order.

        Raises:
            MalformedRequestError: The rest of the connection cannot be parsed.
        """
        self._buffer += data
        complete: list[HttpRequest] = []
        while (length := _request_length(self._buffer)) is not None:
            complete.append(parse_request(self._buffer[:length]))
            self._buffer = self._buffer[length:]
        return complete


def parse_request(raw: bytes) -> HttpRequest:
    """
    Return the request in ``raw``, which holds exactly one request.

    Raises:
        MalformedRequestError: The head cannot be read.
    """
    head, _, body = raw.partition(b"\r\n\r\n")
    method, target, headers = _parse_head(head)
    return HttpRequest(method, target.partition("?")[0], headers, body, raw)


def encode_head(status: int, headers: Mapping[str, str]) -> bytes:
    """Return the status line and header lines of a response, up to the empty line."""
    # Some servers send statuses without a standard phrase, such as 529 for an overloaded server.
    phrase = HTTPStatus(status).phrase if status in _KNOWN_STATUSES else ""
    lines = [f"HTTP/1.1 {status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def encode_chunk(data: bytes) -> bytes:
    """Return ``data``, at least one byte, as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _request_length(buffer: bytes) -> int | None:
    head, found, _ = buffer.partition(b"\r\n\r\n")
    if not found:
        return None
    _, _, headers = _parse_head(head)
    if "transfer-encoding" in headers:
        raise MalformedRequestError("a request's body needs a Content-Length")
    try:
        length = len(head) + len(found) + int(headers.get("content-length", "0"))
    except ValueError as error:
        raise MalformedRequestError("Content-Length is not a number") from error
    return length if len(buffer) >= length else None


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *rest = head.decode("latin-1").split("\r\n")
    try:
        method, target, _version = first.split(" ")
    except ValueError as error:
        raise MalformedRequestError(f"no request line: {first[:80]!r}") from error
    headers: dict[str, str] = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon:
            raise MalformedRequestError(f"no header: {line[:80]!r}")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return method, target, headers
