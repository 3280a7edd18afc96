"""A stream without finish reasons is complete if it ends with ``[DONE]``, with every client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latspan.integrations import Outcome
from latspan.testing import Captured
from tests.clients.conftest import Driver

pytestmark = pytest.mark.any_client

DONE = b"data: [DONE]\n\n"


def event(content: str, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish_reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n".encode()


def read(driver: Driver, *pieces: bytes) -> None:
    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.sending(pieces), program)


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ((DONE,), Outcome.COMPLETED),
        ((b"data:[DONE]\r\n\r\n",), Outcome.COMPLETED),
        ((b"data: [DO", b"NE]\n\n"), Outcome.COMPLETED),
        ((), Outcome.TRUNCATED),
        ((event("\ndata: [DONE]\n"),), Outcome.TRUNCATED),
    ],
)
def test_only_done_completes_it(
    driver: Driver, seen: Captured, end: tuple[bytes, ...], outcome: Outcome
) -> None:
    """However many such streams the server sends, and however the bytes are split."""
    for _ in range(4):
        read(driver, event("a"), event("b"), *end)
    assert [record.outcome for record in seen.records] == [outcome] * 4


def test_a_finish_reason_completes_it_too(driver: Driver, seen: Captured) -> None:
    """``[DONE]`` may be missing then."""
    for _ in range(4):
        read(driver, event("a"), event("b", "stop"))
    assert {record.outcome for record in seen.records} == {Outcome.COMPLETED}


def test_a_server_that_leaves_the_reason_out_later(driver: Driver, seen: Captured) -> None:
    """The bytes are watched again after the first stream without a reason."""
    for _ in range(3):
        read(driver, event("a", "stop"), DONE)
    for _ in range(3):
        read(driver, event("a"), DONE)
    found = [record.outcome for record in seen.records]
    assert found == [Outcome.COMPLETED] * 3 + [Outcome.TRUNCATED] + [Outcome.COMPLETED] * 2


def test_streams_that_are_open_at_the_same_time(driver: Driver, seen: Captured) -> None:
    """None of them has ended when the others begin."""

    async def program(client: Any) -> None:
        streams = [await driver.create(client, stream=True) for _ in range(6)]
        for stream in streams:
            await driver.read(stream)

    for _ in range(2):
        driver.run(driver.sending([event("a"), DONE]), program)
    assert [record.outcome for record in seen.records] == [Outcome.COMPLETED] * 12
