"""What the application does to an answer, once it has it, changes nothing that is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from latspan._live.otel.spans import NoSink
from latspan._live.process.runtime import Runtime, override_runtime
from latspan._model.recording import Recorder
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, Script
from tests.clients.conftest import Driver, with_every_sdk

SCRIPT = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, flavor="plain")


def _spoil(value: Any) -> None:
    """Overwrite each field of an SDK's object, those of the objects in it first."""
    fields = cast("dict[str, Any]", value.__dict__).copy()
    for name, inner in fields.items():
        inside = cast("list[Any]", inner) if isinstance(inner, list) else [inner]
        for each in inside:
            if hasattr(each, "model_fields_set"):
                _spoil(each)
        if name != "type":
            setattr(value, name, None)


def _recorded(seen: Captured) -> tuple[RequestRecord, dict[str, Any]]:
    """Return the last call's record, and the attributes of its span that describe the response."""
    span = [span for span in seen.spans if span.name == "chat m"][-1]
    of_response = {
        name: value
        for name, value in (span.attributes or {}).items()
        if name.startswith(("gen_ai.response.", "gen_ai.usage."))
    }
    return seen.records[-1], of_response


@with_every_sdk
def test_a_chunk_that_is_changed_as_it_arrives_is_recorded_as_it_came(
    driver: Driver, seen: Captured
) -> None:
    """A gateway strips usage, renames the model and drops the finish reason."""
    visits: list[Callable[[Any], None] | None] = [None, _spoil]
    asked = {"stream_options": {"include_usage": True}} if driver.sdk.name == "openai" else {}

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True, **asked)
        await driver.read(stream, visits.pop(0))

    driver.run(driver.transport(SCRIPT), program)
    untouched, expected = _recorded(seen)
    driver.run(driver.transport(SCRIPT), program)
    record, found = _recorded(seen)
    assert record.outcome is Outcome.COMPLETED
    assert record.tokens == untouched.tokens
    assert record.tokens.output == 5
    assert found == expected
    assert {"gen_ai.response.model", "gen_ai.response.id"} <= expected.keys()


@with_every_sdk
def test_an_answer_that_is_changed_before_it_is_read_is_recorded_as_it_came(
    driver: Driver,
) -> None:
    """The worker thread reads it later, whatever the application has done to it by then."""
    jobs: list[Callable[[], None]] = []
    runtime = Runtime(
        clock=driver.clock,
        recorder=Recorder(driver.clock, keep=None),
        sink=NoSink,
        enqueue=jobs.append,
        strict=True,
    )

    async def program(client: Any) -> None:
        _spoil(await driver.create(client))

    with override_runtime(runtime):
        driver.run(driver.transport(SCRIPT), program)
        for job in jobs:
            job()
    (record,) = runtime.recorder.snapshot().records
    assert record.outcome is Outcome.COMPLETED
    assert record.tokens.output == 5


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_the_finish_reason_of_a_last_chunk_that_holds_text_is_kept(
    driver: Driver, seen: Captured, reason: str
) -> None:
    """Some servers send the last token, the finish reason and usage in one chunk."""
    head = 'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m",'
    usage = '"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}'
    events = (
        f'{head}"choices":[{{"index":0,"delta":{{"content":"Hi"}},"finish_reason":null}}]}}\n\n'
        f'{head}"choices":[{{"index":0,"delta":{{"content":"!"}},"finish_reason":"{reason}"}}],'
        f"{usage}}}\n\ndata: [DONE]\n\n"
    )

    def answer(_: Any) -> Any:
        headers = {"content-type": "text/event-stream"}
        return driver.http.Response(200, headers=headers, content=events)

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True), _spoil)

    driver.run(driver.http.MockTransport(answer), program)
    (record,) = seen.records
    assert (record.outcome, record.tokens.output) == (Outcome.COMPLETED, 2)
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    assert (span.attributes or {})["gen_ai.response.finish_reasons"] == (reason,)
    assert (span.attributes or {})["gen_ai.response.model"] == "m"
