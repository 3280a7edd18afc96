"""Whichever way of Anthropic's SDK a caller asks, it is one call with the same times."""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, Script, capture
from tests.clients.conftest import ANTHROPIC, Driver, with_anthropic

MS = 1_000_000
SCRIPT = Script.chat(
    tokens=3,
    reasoning_tokens=2,
    prefill_ms=60,
    gap_ms=10,
    flavor="plain",
    cached_tokens=3,
    cache_write_tokens=2,
)

Way = Callable[[Driver, Any], Awaitable[None]]

ASK: Any = ANTHROPIC.asks


async def _now(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


async def _all(iterator: Any) -> list[Any]:
    if hasattr(iterator, "__aiter__"):
        return [each async for each in iterator]
    return list(iterator)


async def _first_of(iterator: Any) -> None:
    if hasattr(iterator, "__aiter__"):
        async for _ in iterator:
            return
    for _ in iterator:
        return


async def _created(driver: Driver, client: Any) -> None:
    assert await _all(await _now(client.messages.create(stream=True, **ASK)))


async def _beta(driver: Driver, client: Any) -> None:
    assert await _all(await _now(client.beta.messages.create(stream=True, **ASK)))


async def _helper(driver: Driver, client: Any) -> None:
    async with driver.entered(client.messages.stream(**ASK)) as stream:
        assert await _all(stream)


async def _helpers_text(driver: Driver, client: Any) -> None:
    async with driver.entered(client.messages.stream(**ASK)) as stream:
        assert "".join(await _all(stream.text_stream)) == "text0 text1 text2 "
        message = await _now(stream.get_final_message())
    assert message.usage.output_tokens == 5


async def _helpers_message(driver: Driver, client: Any) -> None:
    async with driver.entered(client.messages.stream(**ASK)) as stream:
        assert (await _now(stream.get_final_message())).stop_reason == "end_turn"


async def _raw_parsed(driver: Driver, client: Any) -> None:
    raw = await _now(client.messages.with_raw_response.create(stream=True, **ASK))
    assert raw.headers["content-type"] == "text/event-stream"
    assert await _all(await _now(raw.parse()))


async def _held_parsed(driver: Driver, client: Any) -> None:
    manager = client.messages.with_streaming_response.create(stream=True, **ASK)
    async with driver.entered(manager) as response:
        assert await _all(await _now(response.parse()))


async def _held_lines(driver: Driver, client: Any) -> None:
    manager = client.messages.with_streaming_response.create(stream=True, **ASK)
    async with driver.entered(manager) as response:
        assert "event: message_stop" in await _all(response.iter_lines())


@with_anthropic
@pytest.mark.parametrize(
    "ask",
    [
        _created,
        _beta,
        _helper,
        _helpers_text,
        _helpers_message,
        _raw_parsed,
        _held_parsed,
        _held_lines,
    ],
)
def test_a_stream_is_followed_in_every_way_of_reading(
    driver: Driver, seen: Captured, ask: Way
) -> None:
    """The SDK's stream, its helper, or the bytes of a raw response: the same marks."""
    driver.run(driver.transport(SCRIPT), lambda client: ask(driver, client))

    (record,) = seen.records
    assert (record.kind, record.name) == (Kind.CALL, "chat m")
    assert record.outcome is Outcome.COMPLETED
    assert record.metrics["time_to_first_token"].value == 60 * MS
    assert record.metrics["time_to_first_visible_token"].value == 80 * MS
    assert [gap.value for gap in record.chunk_gaps] == [10 * MS] * 4
    assert record.duration_ns == 100 * MS
    assert {total.name: total.duration_ns for total in record.segment_totals} == {
        "server_wait": 60 * MS,
        "reasoning": 20 * MS,
        "decode": 20 * MS,
    }


async def _leave_helper(driver: Driver, client: Any) -> None:
    async with driver.entered(client.messages.stream(**ASK)) as stream:
        await _first_of(stream)
        driver.clock.advance(7 * MS)


async def _leave_text(driver: Driver, client: Any) -> None:
    # Reasoning comes before the first text.
    async with driver.entered(client.messages.stream(**ASK)) as stream:
        await _first_of(stream.text_stream)
        driver.clock.advance(7 * MS)


async def _leave_held(driver: Driver, client: Any) -> None:
    manager = client.messages.with_streaming_response.create(stream=True, **ASK)
    async with driver.entered(manager) as response:
        await _first_of(response.iter_lines())
        driver.clock.advance(7 * MS)


@with_anthropic
@pytest.mark.parametrize(
    ("leave", "duration_ms"), [(_leave_helper, 67), (_leave_text, 87), (_leave_held, 67)]
)
def test_leaving_with_ends_it(driver: Driver, seen: Captured, leave: Way, duration_ms: int) -> None:
    """At the exit, which is the close; what the caller did until then is the caller's."""
    driver.run(driver.transport(SCRIPT), lambda client: leave(driver, client))

    (record,) = seen.records
    assert record.outcome is Outcome.CLOSED_EARLY
    assert record.duration_ns == duration_ms * MS
    assert {total.name: total.duration_ns for total in record.segment_totals}["consumer"] == 7 * MS
    # Counted at the start; what came out nobody has said.
    assert (record.tokens.input, record.tokens.output) == (12, None)


async def _unread_helper(driver: Driver, client: Any) -> None:
    async with driver.entered(client.messages.stream(**ASK)):
        driver.clock.advance(7 * MS)


async def _unread_raw(driver: Driver, client: Any) -> None:
    await _now(client.messages.with_raw_response.create(stream=True, **ASK))


@with_anthropic
@pytest.mark.parametrize(
    ("ask", "outcome", "duration_ms"),
    [(_unread_helper, Outcome.CLOSED_EARLY, 7), (_unread_raw, Outcome.ABANDONED, 0)],
)
def test_a_stream_that_is_not_read(
    driver: Driver, seen: Captured, ask: Way, outcome: Outcome, duration_ms: int
) -> None:
    """Closed by ``with`` it was closed early, and dropped it is abandoned."""
    driver.run(driver.transport(SCRIPT), lambda client: ask(driver, client))
    # A raw response and what read it may hold each other.
    gc.collect()

    (record,) = seen.records
    assert (record.outcome, record.duration_ns) == (outcome, duration_ms * MS)


async def _whole(driver: Driver, client: Any) -> None:
    assert (await _now(client.messages.create(**ASK))).content


async def _raw_whole(driver: Driver, client: Any) -> None:
    raw = await _now(client.messages.with_raw_response.create(**ASK))
    assert (await _now(raw.parse())).content


async def _held_whole(driver: Driver, client: Any) -> None:
    manager = client.messages.with_streaming_response.create(**ASK)
    async with driver.entered(manager) as response:
        assert (await _now(response.parse())).content


@with_anthropic
@pytest.mark.parametrize("ask", [_whole, _raw_whole, _held_whole])
def test_an_answer_in_one_piece_is_one_call(driver: Driver, seen: Captured, ask: Way) -> None:
    """Its tokens are the provider's own, raw or not."""
    driver.run(driver.transport(SCRIPT), lambda client: ask(driver, client))

    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert record.duration_ns == 100 * MS
    assert (record.tokens.input, record.tokens.output) == (12, 5)


async def _parse(driver: Driver, client: Any) -> None:
    if not hasattr(client.messages, "parse"):
        pytest.skip("this version has no messages.parse")
    # The scripted text is no JSON of the model's: what the SDK raises is the caller's affair.
    with pytest.raises(ValueError, match="invalid"):
        await _now(client.messages.parse(output_format=dict[str, int], **ASK))


@with_anthropic
def test_an_answer_that_the_sdk_cannot_parse_is_an_error(driver: Driver, seen: Captured) -> None:
    """One call, which ended with what the caller was told."""
    driver.run(driver.transport(SCRIPT), lambda client: _parse(driver, client))

    (record,) = seen.records
    assert record.outcome is Outcome.ERROR


@with_anthropic
def test_the_span_has_the_attributes_of_the_request_and_the_usage(
    driver: Driver, seen: Captured
) -> None:
    """In the words of the GenAI conventions; the input's count includes the cached tokens."""

    async def program(client: Any) -> None:
        more = {"temperature": 0.5, "top_k": 7}
        await _all(
            await _now(
                client.messages.create(stream=True, stop_sequences=["end"], extra_body=more, **ASK)
            )
        )

    driver.run(driver.transport(SCRIPT), program)
    (span,) = [span for span in seen.spans if span.parent is None]
    assert span.name == "chat m"
    said = {name: value for name, value in (span.attributes or {}).items() if "gen_ai" in name}
    del said["gen_ai.response.time_to_first_chunk"]
    assert said == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m",
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_k": 7,
        "gen_ai.request.stop_sequences": ("end",),
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "msg_0",
        "gen_ai.response.model": "m",
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.cache_write.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }


@with_anthropic
def test_arguments_of_a_tool_call_are_tokens(driver: Driver, seen: Captured) -> None:
    """An answer may have no text at all."""
    script = Script.chat(tokens=0, tool_call_tokens=3, prefill_ms=60, gap_ms=10, flavor="plain")

    driver.run(driver.transport(script), lambda client: _created(driver, client))
    (record,) = seen.records
    assert record.metrics["time_to_first_visible_token"].value == 60 * MS
    assert [gap.value for gap in record.chunk_gaps] == [10 * MS] * 2


@with_anthropic
def test_retries_are_inside_one_call(driver: Driver, seen: Captured) -> None:
    """The last try decides how it ended."""
    scripts = [Script.refused(529, retry_after_s=0.001, after_ms=5), SCRIPT]
    transport = driver.transport([Script.refused(429, retry_after_s=0.001), *scripts])
    driver.run(transport, lambda client: _created(driver, client), max_retries=2)

    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert [served.status for served in transport.served_requests()] == [429, 529, 200]
    (span,) = [span for span in seen.spans if span.parent is None]
    assert (span.attributes or {})["latspan.attempt.count"] == 3


@with_anthropic
def test_an_error_inside_a_stream_is_an_error_with_every_status(
    driver: Driver, seen: Captured
) -> None:
    """The SDK's exception carries the status that the stream began with, which was good."""

    async def program(client: Any) -> None:
        with pytest.raises(driver.errors.APIStatusError, match="overloaded_error") as caught:
            await _created(driver, client)
        assert caught.value.status_code == 200

    driver.run(driver.transport(Script.chat(tokens=1, ending="error")), program)
    (record,) = seen.records
    assert record.outcome is Outcome.ERROR
    (span,) = [span for span in seen.spans if span.parent is None]
    assert (span.attributes or {})["error.type"] == "anthropic.APIStatusError"


@with_anthropic
def test_what_asks_for_no_message_is_no_call(driver: Driver, seen: Captured) -> None:
    """A list of models is an HTTP exchange."""

    async def program(client: Any) -> None:
        assert (await _now(client.models.list())).data

    driver.run(driver.transport(SCRIPT), program)
    assert [record.kind for record in seen.records] == [Kind.HTTP]


@with_anthropic
def test_a_warning_names_the_same_line_as_without(driver: Driver, seen: Captured) -> None:
    """Python shows a warning of deprecation only where it names the program's own line."""

    async def program(client: Any) -> None:
        constants = pytest.importorskip("anthropic.resources.messages.messages")
        if not (deprecated := getattr(constants, "DEPRECATED_MODELS", None)):
            pytest.skip("this version deprecates no model")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            asked = client.messages.create(**{**ASK, "model": next(iter(deprecated))})
            await _now(asked)
        named = {each.filename for each in caught if each.category is DeprecationWarning}
        # An asynchronous method runs when it is awaited, from wherever that is.
        assert driver.asynchronous or named == {__file__}

    driver.run(driver.transport(SCRIPT), program)
    assert len(seen.records) == 1


@pytest.mark.parametrize(
    ("client", "provider"),
    [
        ("AnthropicBedrock", "aws.bedrock"),
        ("AnthropicVertex", "gcp.vertex_ai"),
    ],
)
def test_the_client_determines_the_provider(client: str, provider: str) -> None:
    """By its class; without credentials no request gets as far as the network."""
    driver = Driver(asynchronous=False, sdk=ANTHROPIC)
    anthropic = pytest.importorskip("anthropic", reason="the anthropic client is not installed")
    options: dict[str, Any] = {"max_retries": 0, "base_url": "https://model.test"}
    if client == "AnthropicBedrock":
        options |= {"aws_region": "eu-west-1", "aws_access_key": "none", "aws_secret_key": "none"}
    else:
        options |= {"region": "europe-west1", "project_id": "p", "access_token": "none"}
    http_client = driver.http.Client(transport=driver.transport(Script.refused(404)))

    with (
        capture(clock=driver.clock) as seen,
        getattr(anthropic, client)(http_client=http_client, **options) as connected,
        # What is missing to sign a request differs; what matters is whom it was meant for.
        pytest.raises(Exception, match=r"404|boto|aws"),
    ):
        connected.messages.create(**ASK)
    (record,) = seen.records
    assert record.attributes["provider"] == provider
    assert record.outcome is Outcome.ERROR
