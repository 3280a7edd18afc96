"""A model's stream of events is a call whatever its server sends first."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from latspan import Kind
from latspan._base.nanoseconds import NS_PER_MS as MS
from latspan.integrations import Outcome
from latspan.testing import Captured, capture
from tests.clients.conftest import MESSAGES, Driver

pytestmark = pytest.mark.any_client

ASKS: Any = {"model": "m", "messages": MESSAGES, "stream": True}

Way = Callable[[Driver, Any], Awaitable[None]]


def _chunks(**head: str) -> list[bytes]:
    """Return a chat of two words with the usage behind."""
    used = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None},
        {"index": 0, "delta": {"content": "one "}, "finish_reason": None},
        {"index": 0, "delta": {"content": "two"}, "finish_reason": "stop"},
    ]
    bodies: list[dict[str, Any]] = [{"choices": [each]} for each in choices]
    bodies.append({"choices": [], "usage": used})
    events = [f"data: {json.dumps({**head, **body})}\n\n".encode() for body in bodies]
    return [*events, b"data: [DONE]\n\n"]


NAMED = _chunks(id="a", model="m", object="chat.completion.chunk")
FILTER: dict[str, Any] = {
    "choices": [],
    "created": 0,
    "id": "",
    "model": "",
    "object": "",
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
}
STREAMS = {
    "Azure's filter results": [f"data: {json.dumps(FILTER)}\n\n".encode(), *NAMED],
    "a ping": [b'event: ping\ndata: {"type": "ping"}\n\n', *NAMED],
    "an empty event": [b"data:\n\n", *NAMED],
    "no object": [b": wait\n\n", *_chunks(id="a", model="m")],
}


async def _bare(driver: Driver, client: Any) -> None:
    sent = client._client.post("https://model.test/v1/chat/completions", json=ASKS)
    assert (await sent if driver.asynchronous else sent).status_code == 200


async def _lines(driver: Driver, client: Any) -> None:
    manager = client.chat.completions.with_streaming_response.create(**ASKS)
    async with driver.entered(manager) as response:
        await driver.read(response.iter_lines())


@pytest.mark.parametrize("read", [_bare, _lines])
@pytest.mark.parametrize("pieces", STREAMS.values(), ids=STREAMS)
def test_what_precedes_an_answer_does_not_hide_it(
    driver: Driver, seen: Captured, pieces: list[bytes], read: Way
) -> None:
    """It counts as a chunk, and the tokens of the answer behind it are read."""
    driver.run(driver.sending(pieces), lambda client: read(driver, client))
    (record,) = seen.records
    assert (record.kind, record.name, record.outcome) == (Kind.CALL, "chat m", Outcome.COMPLETED)
    assert record.metrics["time_to_first_token"].value == 30 * MS
    assert record.tokens.output == 2


@pytest.mark.parametrize("size", [60_000, 200_000])
def test_the_first_event_may_be_long(driver: Driver, seen: Captured, size: int) -> None:
    """It may repeat the tools and the prompt. It arrives in many reads."""
    first, *others = NAMED
    long = first.replace(b'"id"', b'"padding": "' + b"x" * size + b'", "id"')
    parts = [long[at : at + 4096] for at in range(0, len(long), 4096)]
    driver.run(driver.sending([*parts, *others]), lambda client: _bare(driver, client))
    (record,) = seen.records
    assert (record.kind, record.name) == (Kind.CALL, "chat m")
    assert record.tokens.output == 2


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirected_request_has_its_model(driver: Driver, seen: Captured, status: int) -> None:
    """The client library sends the same body again."""
    target = driver.sending(NAMED)

    def answer(request: Any) -> Any:
        if request.url.path.endswith("/"):
            return driver.http.Response(status, headers={"location": "/v1/chat/completions"})
        return target.handler(request)

    async def program(client: Any) -> None:
        url = "https://model.test/v1/chat/completions/"
        sent = client._client.post(url, json=ASKS, follow_redirects=True)
        assert (await sent if driver.asynchronous else sent).status_code == 200

    driver.run(driver.http.MockTransport(answer), program)
    assert [each.name for each in seen.records] == ["POST", "chat m"]


LINE_ENDS = {
    "CR": (b"\r", b"\r"),
    "CRLF": (b"\r\n", b"\r\n"),
    "LF, blank lines in CRLF": (b"\n", b"\r\n"),
    "LF, blank lines in CR": (b"\n", b"\r"),
}


@pytest.mark.parametrize("read", [_bare, _lines])
@pytest.mark.parametrize(("end", "blank"), LINE_ENDS.values(), ids=LINE_ENDS)
def test_lines_may_end_as_the_specification_allows(
    driver: Driver, seen: Captured, end: bytes, blank: bytes, read: Way
) -> None:
    """In CR, LF or CRLF, and not all alike."""
    pieces = [piece.removesuffix(b"\n\n") + end + blank for piece in NAMED]
    driver.run(driver.sending(pieces), lambda client: read(driver, client))
    (record,) = seen.records
    assert (record.kind, record.name, record.outcome) == (Kind.CALL, "chat m", Outcome.COMPLETED)
    assert record.metrics["time_to_first_token"].value == 20 * MS
    assert record.tokens.output == 2


@pytest.mark.parametrize("read", [_bare, _lines])
@pytest.mark.parametrize(
    "fields",
    [
        {"content-type": "Text/Event-Stream; charset=utf-8"},
        {"content-encoding": "Identity"},
        {"content-encoding": "IDENTITY", "content-type": "TEXT/EVENT-STREAM"},
    ],
)
def test_the_case_of_a_header_has_no_effect(
    driver: Driver, seen: Captured, fields: dict[str, Any], read: Way
) -> None:
    """A media type and a content coding are the same in any case (RFC 9110, 8.3.1 and 8.4.1)."""
    driver.run(driver.sending(NAMED, **fields), lambda client: read(driver, client))
    (record,) = seen.records
    assert (record.kind, record.name, record.outcome) == (Kind.CALL, "chat m", Outcome.COMPLETED)
    assert record.tokens.output == 2


def test_a_reader_by_lines_may_stop_at_the_line_of_the_end_mark() -> None:
    """It does not need the blank line after that, so the response is complete."""
    events = (
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "stop_reason": None}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "one"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    lines = [f"{line}\n" for each in events for line in (f"data: {json.dumps(each)}", "")]
    http: Any = pytest.importorskip("httpx")
    headers = {"content-type": "text/event-stream"}

    def respond(_request: Any) -> Any:
        return http.Response(200, headers=headers, content=(line.encode() for line in lines))

    for read, outcome in ((len(lines) - 1, Outcome.COMPLETED), (4, Outcome.CLOSED_EARLY)):
        with (
            capture() as captured,
            http.Client(transport=http.MockTransport(respond)) as client,
            client.stream("POST", "https://model.test/v1/messages", json=ASKS) as response,
        ):
            body = response.iter_raw()
            for _ in range(read):
                next(body)
        (record,) = captured.records
        assert (record.kind, record.outcome) == (Kind.CALL, outcome)
