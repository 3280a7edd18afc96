"""What a stream says besides its text is read, wherever in its last chunks it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latspan.integrations import Outcome
from latspan.testing import Captured
from tests.clients.conftest import Driver, Leave

pytestmark = pytest.mark.any_client

USED = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def _streamed(
    driver: Driver, chunks: list[dict[str, Any]], *, leave_after: int | None = None, **options: Any
) -> list[Any]:
    """Return what the client got of a stream of ``chunks``, which may be left after some."""
    head = {"id": "a", "created": 1, "model": "m", "object": "chat.completion.chunk"}
    text = "".join(f"data: {json.dumps({**head, **chunk})}\n\n" for chunk in chunks)

    def respond(_request: Any) -> Any:
        fields = {"content-type": "text/event-stream"}
        return driver.http.Response(200, headers=fields, content=f"{text}data: [DONE]\n\n".encode())

    got: list[Any] = []

    def take(chunk: Any) -> None:
        got.append(chunk)
        if len(got) == leave_after:
            raise Leave

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True, **options)
        await driver.read(stream, take)
        await driver.close(stream)

    driver.run(driver.http.MockTransport(respond), program)
    return got


def _word(index: int, word: str, finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": index, "delta": {"content": word}, "finish_reason": finish_reason}
    return {"choices": [choice]}


def _attributes(seen: Captured, outcome: Outcome = Outcome.COMPLETED) -> dict[str, Any]:
    (record,) = seen.records
    assert record.outcome is outcome
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    return dict(span.attributes or {})


def test_a_finish_reason_that_comes_with_text_is_read(driver: Driver, seen: Captured) -> None:
    """As vLLM sends it, with the usage behind."""
    words = [_word(0, "one "), _word(0, "two "), _word(0, "three", "length")]
    got = _streamed(driver, [*words, {"choices": [], "usage": USED}])

    assert len(got) == 4
    attributes = _attributes(seen)
    assert attributes["gen_ai.response.finish_reasons"] == ("length",)
    assert attributes["gen_ai.usage.output_tokens"] == 3


def test_a_finish_reason_of_each_choice_that_comes_with_text_is_read(
    driver: Driver, seen: Captured
) -> None:
    """Where several answers were asked for the last chunks are kept, whatever they bear."""
    words = [
        _word(0, "one "),
        _word(1, "eins "),
        _word(0, "two", "length"),
        _word(1, "zwei", "stop"),
    ]
    _streamed(driver, [*words, {"choices": [], "usage": USED}], n=2)

    assert _attributes(seen)["gen_ai.response.finish_reasons"] == ("length", "stop")


def test_usage_that_comes_with_each_word_is_read_where_nothing_follows(
    driver: Driver, seen: Captured
) -> None:
    """The last is the whole."""
    words = [{**_word(0, "w"), "usage": {**USED, "completion_tokens": n}} for n in (1, 2)]
    _streamed(driver, [*words, {**_word(0, "w", "stop"), "usage": USED}])

    assert _attributes(seen)["gen_ai.usage.output_tokens"] == 3


def test_usage_that_comes_with_each_word_is_read_of_a_stream_that_is_left(
    driver: Driver, seen: Captured
) -> None:
    """No chunk with a finish reason came, and none without text."""
    words = [{**_word(0, "w"), "usage": {**USED, "completion_tokens": n}} for n in (1, 2, 3)]

    _streamed(driver, words, leave_after=2)

    assert _attributes(seen, Outcome.CLOSED_EARLY)["gen_ai.usage.output_tokens"] == 2


def _cut(driver: Driver, words: list[dict[str, Any]], *, parsed: bool) -> None:
    """Read a stream without an end mark, by the SDK or by its HTTP client alone."""
    head = {"id": "a", "created": 1, "model": "m", "object": "chat.completion.chunk"}
    pieces = [f"data: {json.dumps({**head, **word})}\n\n".encode() for word in words]

    async def program(client: Any) -> None:
        if parsed:
            await driver.read(await driver.create(client, stream=True))
            return
        sent = client._client.post("https://model.test/v1/chat/completions", json={"model": "m"})
        assert (await sent if driver.asynchronous else sent).status_code == 200

    driver.run(driver.sending(pieces), program)


@pytest.mark.parametrize("parsed", [True, False], ids=["objects", "bytes"])
@pytest.mark.parametrize(
    ("last", "outcome"), [("", Outcome.TRUNCATED), ("length", Outcome.COMPLETED)]
)
def test_an_empty_finish_reason_is_none(
    driver: Driver, seen: Captured, last: str, outcome: Outcome, *, parsed: bool
) -> None:
    """Some servers send one with each chunk: a stream that is cut has no other."""
    _cut(driver, [_word(0, "one ", ""), _word(0, "two ", ""), _word(0, "", last)], parsed=parsed)
    (record,) = seen.records
    assert record.outcome is outcome
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    reasons = (span.attributes or {}).get("gen_ai.response.finish_reasons")
    assert reasons == (last or "error",)


@pytest.mark.parametrize("parsed", [True, False], ids=["objects", "bytes"])
def test_a_word_behind_the_finish_reason_does_not_hide_it(
    driver: Driver, seen: Captured, *, parsed: bool
) -> None:
    """Some gateways send what they held back after the chunk that ends the answer."""
    _cut(driver, [_word(0, "one "), _word(0, "", "stop"), _word(0, "two")], parsed=parsed)
    assert _attributes(seen)["gen_ai.response.finish_reasons"] == ("stop",)
