"""What an answer tells of its stages: nothing unless asked to, and then what was chosen."""

from __future__ import annotations

from typing import Any

import pytest

import latspan
from tests.servers.conftest import MS, App, Client, Server, answering

EVENTS = (b"content-type", b"text/event-stream")


def _staged(server: Server, app: App) -> App:
    async def staged(scope: Any, receive: Any, send: Any) -> None:
        with latspan.stage("queue"):
            server.clock.advance(20 * MS)
        with latspan.stage("rerank", kind="retrieve"):
            server.clock.advance(3 * MS)
        await app(scope, receive, send)

    return staged


def _streaming(server: Server) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [EVENTS]})
        with latspan.stage("prefill"):
            server.clock.advance(30 * MS)
        with latspan.stage("decode"):
            await send({"type": "http.response.body", "body": b"data: a\n\n", "more_body": True})
            server.clock.advance(40 * MS)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


def test_no_timing_is_sent_by_default(server: Server) -> None:
    """Where a server spends its time is its own affair."""
    client = server.serve(_staged(server, answering(b"a")), hold_headers=True)
    assert client.headers == {}
    assert client.body == b"a"


def test_only_the_standard_stages_are_sent(server: Server) -> None:
    """A name of one's own may say too much."""
    client = server.serve(_staged(server, answering(b"a")), server_timing=True)
    assert client.headers == {b"server-timing": b"queue;dur=20.000, total;dur=23.000"}


@pytest.mark.parametrize("named", [["rerank"], "rerank"])
def test_named_stages_are_sent(server: Server, named: list[str] | str) -> None:
    """Whatever it is."""
    client = server.serve(_staged(server, answering(b"a")), server_timing=named)
    assert client.headers == {b"server-timing": b"rerank;dur=3.000"}


def test_a_header_of_the_applications_own_stays(server: Server) -> None:
    """The field may stand there more than once."""
    theirs = (b"server-timing", b"cache;dur=1")
    app = _staged(server, answering(b"a", headers=[theirs]))
    client = server.serve(app, server_timing=True)
    (head,) = [each for each in client.sent if each["type"] == "http.response.start"]
    assert head["headers"] == [theirs, (b"server-timing", b"queue;dur=20.000, total;dur=23.000")]


def test_a_streams_head_leaves_before_its_prefill(server: Server) -> None:
    """As the application sends it."""
    client = server.serve(_staged(server, _streaming(server)), server_timing=True)
    assert client.headers[b"server-timing"] == b"queue;dur=20.000, total;dur=23.000"
    assert client.body == b"data: a\n\n"


def test_held_headers_contain_queue_and_prefill_and_a_comment_the_rest(
    server: Server,
) -> None:
    """Who reads events does not see comments."""
    client = server.serve(
        _staged(server, _streaming(server)), server_timing=True, hold_headers=True
    )
    assert (
        client.headers[b"server-timing"]
        == b"queue;dur=20.000, prefill;dur=30.000, total;dur=53.000"
    )
    assert client.body == (
        b"data: a\n\n: server-timing queue;dur=20.000, prefill;dur=30.000, decode;dur=40.000,"
        b" total;dur=93.000\n\n"
    )


@pytest.mark.parametrize(
    ("status", "method", "header"),
    [
        (204, "POST", None),
        (304, "GET", None),
        (200, "HEAD", None),
        (206, "GET", (b"content-range", b"bytes 0-8/9")),
        (200, "GET", (b"Content-Digest", b"sha-256=:AAAA:")),
        (200, "GET", (b"cache-control", b"no-cache, No-Transform")),
    ],
)
def test_nothing_is_appended_to_a_body_that_is_fixed(
    server: Server, status: int, method: str, header: tuple[bytes, bytes] | None
) -> None:
    """A response without a body stays without one, and bytes that headers describe stay so."""
    headers = [EVENTS, *([] if header is None else [header])]
    body = b"" if header is None else b"data: a\n\n"
    app = answering(body, status=status, headers=headers)
    client = server.serve(
        _staged(server, app), scope={"method": method}, server_timing=True, hold_headers=True
    )
    assert client.body == body
    assert b"server-timing" in client.headers


@pytest.mark.parametrize("length", [b"1", b"0"])
def test_an_answer_of_known_length_is_neither_held_nor_longer(
    server: Server, length: bytes
) -> None:
    """Its bytes are counted already."""
    app = answering(b"a"[: int(length)], headers=[EVENTS, (b"content-length", length)])
    client = server.serve(_staged(server, app), server_timing=True, hold_headers=True)
    assert client.headers[b"server-timing"] == b"queue;dur=20.000, total;dur=23.000"
    assert client.body == b"a"[: int(length)]


def test_a_held_head_leaves_with_an_empty_body(server: Server) -> None:
    """Or the client would wait for ever."""
    client = server.serve(_staged(server, answering()), server_timing=True, hold_headers=True)
    assert client.headers[b"server-timing"] == b"queue;dur=20.000, total;dur=23.000"


def test_a_stage_that_is_still_open_is_not_sent(server: Server) -> None:
    """Nobody knows yet how long it takes."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with latspan.stage("decode"):
            with latspan.stage("tokenize"):
                server.clock.advance(4 * MS)
            server.clock.advance(5 * MS)
            await answering(b"a")(scope, receive, send)

    client = server.serve(app, server_timing=True)
    assert client.headers == {b"server-timing": b"tokenize;dur=4.000, total;dur=9.000"}


def test_a_client_reads_it_as_evidence(server: Server) -> None:
    """The same names on both sides."""
    from latspan._model import evidence
    from latspan._model.wire import ResponseMetadata

    client = server.serve(
        _staged(server, _streaming(server)), server_timing=["queue", "prefill"], hold_headers=True
    )
    headers = {name.decode(): value.decode() for name, value in client.headers.items()}
    (reported,) = evidence.read(ResponseMetadata(streamed=True, headers=headers))
    assert (reported.queue_ns, reported.prefill_ns, reported.decode_ns) == (20 * MS, 30 * MS, None)


def test_nothing_is_sent_to_a_client_that_disconnected(server: Server) -> None:
    """And the application still hears of it."""
    app = _staged(server, _streaming(server))
    with pytest.raises(OSError, match="gone"):
        server.serve(app, Client(server.clock, leaves_after=0), server_timing=True)


def _saying(*messages: dict[str, Any]) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    return app


def _part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def _head(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": [EVENTS, *headers]}


def test_a_held_head_leaves_before_a_part_that_is_empty(server: Server) -> None:
    """No server takes a body before its head."""
    app = _saying(_head(), _part(b""), _part(b"data: a\n\n"), _part(b"", more=False))
    client = server.serve(_staged(server, app), server_timing=True, hold_headers=True)
    assert client.sent[0]["type"] == "http.response.start"
    assert client.body.startswith(b"data: a\n\n: server-timing ")


@pytest.mark.parametrize("heads", [1, 2])
def test_a_held_head_is_not_lost(server: Server, heads: int) -> None:
    """Nothing behind it, or another: the server says what it thinks of that."""
    app = _saying(*[_head()] * heads)
    client = server.serve(_staged(server, app), server_timing=True, hold_headers=True)
    assert [each["type"] for each in client.sent] == ["http.response.start"] * heads


def test_the_comment_stands_behind_the_last_event(server: Server) -> None:
    """Whose end may come with the last part."""
    app = _saying(_head(), _part(b"data: he"), _part(b"llo\n\n", more=False))
    client = server.serve(_staged(server, app), server_timing=True, hold_headers=True)
    assert client.body.startswith(b"data: hello\n\n: server-timing queue;dur=20.000")


@pytest.mark.parametrize("body", [b"data: a", b"data: a\n", b"data: a\r\n"])
def test_an_event_that_is_not_over_has_no_comment(server: Server, body: bytes) -> None:
    """It would become a part of it, or end it."""
    app = _saying(_head(), _part(body), _part(b"", more=False))
    client = server.serve(_staged(server, app), server_timing=True, hold_headers=True)
    assert client.body == body


def test_what_is_compressed_has_no_comment(server: Server) -> None:
    """Text behind it would be garbage."""
    app = _saying(
        _head((b"content-encoding", b"gzip")), _part(b"\x1f\x8b\n\n"), _part(b"", more=False)
    )
    client = server.serve(_staged(server, app), server_timing=True, hold_headers=True)
    assert client.body == b"\x1f\x8b\n\n"
