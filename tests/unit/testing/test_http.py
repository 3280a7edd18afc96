"""Requests are read from a connection's bytes, wherever the network splits them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan.testing._http import MalformedRequestError, RequestReader

_RAW = (
    b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\ncontent-length: 4\r\nTag: 1\r\n"
    b"tag: 2\r\n\r\nbodyGET /health HTTP/1.1\r\n\r\n"
)


@given(st.lists(st.integers(0, len(_RAW)), max_size=8))
def test_requests_are_read_equally_however_they_are_split(cuts: list[int]) -> None:
    """Two requests in one read or byte by byte are two requests."""
    edges = [0, *sorted(cuts), len(_RAW)]
    reader = RequestReader()
    found = [request for start, end in pairwise(edges) for request in reader.feed(_RAW[start:end])]

    assert [(r.method, r.path, r.body) for r in found] == [
        ("POST", "/v1/chat/completions", b"body"),
        ("GET", "/health", b""),
    ]
    assert found[0].headers["tag"] == "1, 2"
    assert found[0].raw + found[1].raw == _RAW


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
)
def test_a_malformed_request_is_refused(raw: bytes) -> None:
    """The rest of the connection cannot be read either."""
    with pytest.raises(MalformedRequestError):
        RequestReader().feed(raw)
