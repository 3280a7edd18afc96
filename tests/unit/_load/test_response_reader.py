"""The reader of HTTP responses: every way to end a body, at any split of the bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._load._response_reader import MalformedResponseError, ResponseReader

_CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n1;name=value\r\n \r\nA\r\nworld\r\n\r\n!\r\n0\r\nTrailer: x\r\n\r\n"
)
_LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\nX-A: 1\r\nx-a: 2\r\n\r\nhello world"
_UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\nhello"


def _read(reader: ResponseReader, *parts: bytes) -> bytes:
    return b"".join(reader.feed(part) for part in parts)


@given(st.lists(st.integers(0, len(_CHUNKED)), max_size=12))
def test_a_chunked_body_may_arrive_in_any_pieces(cuts: list[int]) -> None:
    """Chunk extensions and the trailer are skipped, and the response is complete after it."""
    reader = ResponseReader()
    places = sorted({0, len(_CHUNKED), *cuts})
    body = _read(reader, *(_CHUNKED[start:end] for start, end in pairwise(places)))
    assert body == b"hello world\r\n\r\n!"
    assert reader.complete
    assert reader.keeps_alive
    assert reader.headers["content-type"] == "text/event-stream"


@given(st.lists(st.integers(0, len(_LENGTH)), max_size=6))
def test_a_body_of_known_length_may_arrive_in_any_pieces(cuts: list[int]) -> None:
    """The values of a repeated header are joined."""
    reader = ResponseReader()
    places = sorted({0, len(_LENGTH), *cuts})
    assert _read(reader, *(_LENGTH[a:b] for a, b in pairwise(places))) == b"hello world"
    assert reader.complete
    assert reader.headers["x-a"] == "1, 2"


def test_one_chunk_per_read_is_complete_only_at_the_end() -> None:
    """This is how a model server sends tokens."""
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    assert reader.feed(b"3\r\nabc\r\n") == b"abc"
    assert not reader.complete
    assert reader.feed(b"0\r\n\r\n") == b""
    assert reader.complete


def test_the_end_of_the_connection_may_end_a_body() -> None:
    """Then the connection cannot be used again."""
    reader = ResponseReader()
    assert reader.feed(_UNTIL_CLOSE) == b"hello"
    assert not reader.complete
    assert not reader.keeps_alive
    assert reader.end_of_connection()


def test_the_end_of_the_connection_cuts_a_chunked_body() -> None:
    """The body has no last chunk, so it is not complete."""
    reader = ResponseReader()
    reader.feed(_CHUNKED[:-30])
    assert not reader.end_of_connection()


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_some_statuses_have_no_body(status: bytes) -> None:
    """The response is complete with its head."""
    reader = ResponseReader()
    assert reader.feed(b"HTTP/1.1 " + status + b"\r\n\r\n") == b""
    assert reader.complete


def test_an_informational_response_is_skipped() -> None:
    """The final response follows it."""
    reader = ResponseReader()
    assert reader.feed(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + _LENGTH) == b"hello world"
    assert reader.status == 200
    assert "link" not in reader.headers


@pytest.mark.parametrize(
    ("head", "keeps_alive"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close", False),
        (b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive", True),
        (b"HTTP/1.0 200 OK", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive", True),
    ],
)
def test_the_server_decides_whether_the_connection_stays(head: bytes, keeps_alive: bool) -> None:
    """HTTP/1.1 keeps it unless it says otherwise, HTTP/1.0 closes it."""
    reader = ResponseReader()
    reader.feed(head + b"\r\nContent-Length: 0\r\n\r\n")
    assert reader.keeps_alive is keeps_alive


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x00\x05",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"HTTP/1.1 204 No Content\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nmore",
        b"HTTP/1.1 200 OK\r\nA: " + b"a" * (1 << 18),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    """It is no response, or bytes follow that belong to none."""
    with pytest.raises(MalformedResponseError):
        ResponseReader().feed(data)


def test_nothing_may_follow_a_response() -> None:
    """Nothing else was requested."""
    reader = ResponseReader()
    reader.feed(_LENGTH)
    with pytest.raises(MalformedResponseError):
        reader.feed(b"x")
