"""A body that the client library cannot decode fails its call, as it fails the caller."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from latspan.integrations import Outcome
from latspan.testing import Captured
from tests.clients.conftest import Driver, with_every_sdk

BODY = json.dumps({"some": "answer", "of": list(range(200))}).encode()

Way = Callable[[Driver, Any], Awaitable[None]]


class Undecodable(Exception):  # noqa: N818 - stands for the library's own error
    """Raised by a decoder at the end of a body."""


def _corrupt() -> list[bytes]:
    coded = bytearray(gzip.compress(BODY))
    coded[30] ^= 0xFF
    coded[40] ^= 0xFF
    return [bytes(coded[:60]), bytes(coded[60:])]


def _answering(driver: Driver, parts: list[bytes], closed: list[str], coding: str = "gzip") -> Any:
    """Return a transport that answers with ``parts``, and notes that its stream was closed."""
    http = driver.http

    class Stream(http.SyncByteStream, http.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield from parts

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for part in parts:
                yield part

        def close(self) -> None:
            closed.append("closed")

        async def aclose(self) -> None:
            closed.append("closed")

    def answer(_: Any) -> Any:
        headers = {"content-type": "text/event-stream", "content-encoding": coding}
        return http.Response(200, headers=headers, stream=Stream())

    return http.MockTransport(answer)


async def _posted(driver: Driver, client: Any) -> None:
    sent = client._client.post(f"{driver.sdk.base_url}/any", json={"model": "m"})
    if driver.asynchronous:
        await sent


async def _by_lines(driver: Driver, client: Any) -> None:
    asked = client._client.stream("POST", f"{driver.sdk.base_url}/any", json={"model": "m"})
    async with driver.entered(asked) as response:
        lines = response.aiter_lines() if driver.asynchronous else response.iter_lines()
        await driver.read(lines)


async def _raw(driver: Driver, client: Any) -> None:
    resource = driver.sdk.resource_of(client).with_streaming_response
    async with driver.entered(resource.create(**driver.sdk.asks, stream=True)) as response:
        await driver.read(response.iter_lines())


def _error_type(seen: Captured) -> object:
    (span,) = [span for span in seen.spans if span.kind.name == "CLIENT" and span.parent is None]
    return (span.attributes or {}).get("error.type")


@with_every_sdk
@pytest.mark.parametrize("read", [_posted, _by_lines, _raw])
def test_a_corrupt_body_is_an_error(driver: Driver, seen: Captured, read: Way) -> None:
    """The caller gets the library's own exception, and the span its type."""
    closed: list[str] = []
    error = driver.http.DecodingError
    with pytest.raises(error) as raised:
        driver.run(_answering(driver, _corrupt(), closed), lambda client: read(driver, client))
    assert type(raised.value) is error
    assert raised.value.request is not None
    assert closed
    (record,) = seen.records
    assert record.outcome is Outcome.ERROR
    assert _error_type(seen) == f"{error.__module__}.{error.__qualname__}"


@with_every_sdk
@pytest.mark.parametrize("read", [_posted, _by_lines, _raw])
def test_a_body_in_more_codings_than_allowed_is_an_error(
    driver: Driver, seen: Captured, read: Way
) -> None:
    """The library refuses it before it reads anything."""
    if driver.sdk.library == "httpx":
        pytest.skip("httpx decodes any number")
    transport = _answering(driver, [BODY], [], ", ".join(["gzip"] * 6))
    with pytest.raises(driver.http.DecodingError):
        driver.run(transport, lambda client: read(driver, client))
    (record,) = seen.records
    assert record.outcome is Outcome.ERROR


@with_every_sdk
@pytest.mark.parametrize("read", [_posted, _by_lines, _raw])
def test_a_decoder_that_misses_the_end_fails_the_call(
    driver: Driver, seen: Captured, read: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some decoders notice only behind the last byte that something is missing."""

    def flush(_: Any) -> Any:
        raise Undecodable

    decoders = pytest.importorskip(f"{driver.sdk.library}._decoders")
    monkeypatch.setattr(decoders.GZipDecoder, "flush", flush)
    with pytest.raises(Undecodable):
        driver.run(
            _answering(driver, [gzip.compress(BODY)], []), lambda client: read(driver, client)
        )
    (record,) = seen.records
    assert record.outcome is Outcome.ERROR
    assert str(_error_type(seen)).endswith("Undecodable")


@with_every_sdk
@pytest.mark.parametrize("read", [_posted, _by_lines])
@pytest.mark.parametrize("parts", [[gzip.compress(BODY)], []], ids=["whole", "empty"])
def test_a_body_that_can_be_decoded_ends_with_its_last_byte(
    driver: Driver, seen: Captured, read: Way, parts: list[bytes]
) -> None:
    """What its decoder does behind it takes no time of the exchange."""
    driver.run(_answering(driver, parts, []), lambda client: read(driver, client))
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert _error_type(seen) is None
