"""What an application took of a client before ``auto_instrument()`` is a call like any other."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, Script
from tests.clients.conftest import OPENAI, Driver, asked_for, with_every_sdk

SCRIPT = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, flavor="plain")


@pytest.fixture
def late() -> Iterator[None]:
    """Begin without instrumentation."""
    latspan.uninstrument()
    yield
    latspan.auto_instrument()


def _taken(driver: Driver, client: Any, form: str) -> Any:
    """Return what an application holds of a client's ``create``."""
    resource = driver.sdk.resource_of(client)
    return resource.create if form == "create" else getattr(resource, form).create


async def _asked(driver: Driver, method: Any, **more: Any) -> None:
    answer = method(**driver.sdk.asks, **more)
    answer = await answer if driver.asynchronous else answer
    if more:
        stream = answer.parse() if hasattr(answer, "parse") else answer
        await driver.read(await stream if inspect.isawaitable(stream) else stream)


@with_every_sdk
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("form", ["create", "with_raw_response"])
@pytest.mark.usefixtures("late")
def test_a_method_that_was_taken_before_is_a_call(
    driver: Driver, seen: Captured, form: str, *, stream: bool
) -> None:
    """As one that is taken after."""

    async def program(client: Any) -> None:
        taken = _taken(driver, client, form)
        latspan.auto_instrument()
        more = {"stream": True} if stream else {}
        await _asked(driver, taken, **more)
        await _asked(driver, _taken(driver, client, form), **more)

    driver.run(driver.transport([SCRIPT, SCRIPT]), program)
    before, after = seen.records
    assert before.kind is Kind.CALL
    assert before.outcome is Outcome.COMPLETED
    assert before.name == after.name == "chat m"
    assert before.metrics.keys() == after.metrics.keys()
    assert before.tokens == after.tokens


@with_every_sdk
@pytest.mark.usefixtures("late")
def test_a_streaming_response_that_was_taken_before_is_a_call(
    driver: Driver, seen: Captured
) -> None:
    """Its body is followed inside ``with``."""

    async def program(client: Any) -> None:
        taken = _taken(driver, client, "with_streaming_response")
        latspan.auto_instrument()
        async with driver.entered(taken(**driver.sdk.asks, stream=True)) as response:
            if driver.asynchronous:
                async for _ in response.iter_lines():
                    pass
            else:
                for _ in response.iter_lines():
                    pass

    driver.run(driver.transport(SCRIPT), program)
    (record,) = seen.records
    assert (record.name, record.outcome) == ("chat m", Outcome.COMPLETED)


@pytest.mark.usefixtures("late")
def test_embeddings_that_were_taken_before_are_a_call(driver: Driver, seen: Captured) -> None:
    """Each endpoint of the SDK is known by its path."""
    body: Any = {"object": "list", "data": [], "model": "e-2026", "usage": {"prompt_tokens": 5}}

    def answer(_: Any) -> Any:
        return driver.http.Response(200, json=body)

    async def program(client: Any) -> None:
        taken = client.embeddings.create
        latspan.auto_instrument()
        asked = taken(model="e", input="text", encoding_format="float")
        _ = await asked if driver.asynchronous else asked

    assert driver.sdk is OPENAI
    driver.run(driver.http.MockTransport(answer), program)
    (record,) = seen.records
    assert (record.name, record.tokens.input) == ("embeddings e", 5)


@pytest.mark.usefixtures("late")
def test_a_stream_of_a_method_that_was_taken_before_is_asked_for_usage(
    driver: Driver, seen: Captured
) -> None:
    """Where that is configured."""
    transport = driver.transport(SCRIPT)

    async def program(client: Any) -> None:
        taken = _taken(driver, client, "create")
        latspan.auto_instrument()
        await _asked(driver, taken, stream=True)

    with asked_for(request_stream_usage=True):
        driver.run(transport, program)
    (record,) = seen.records
    assert record.tokens.output == 5
