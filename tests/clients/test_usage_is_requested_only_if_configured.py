"""A stream is asked for its token counts only where somebody configured that, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from latspan import TokenSource
from latspan.testing import Captured, Script
from tests.clients.conftest import Driver, asked_for, openai

arguments: Any = pytest.importorskip(
    "latspan_instrumentation.openai._arguments", reason="no openai client"
)

PLAIN = Script.chat(tokens=5, prefill_ms=1, gap_ms=1, flavor="plain")
ASKED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def test_by_default_no_usage_is_requested(driver: Driver, seen: Captured) -> None:
    """The last chunk is the finish chunk, which has no usage."""
    assert _last_chunk(driver).choices[0].finish_reason == "stop"
    (record,) = seen.records
    assert record.tokens.source is TokenSource.UNKNOWN


def test_without_configuration_no_usage_is_requested(driver: Driver) -> None:
    """Latspan is off."""
    assert _last_chunk(driver).choices[0].finish_reason == "stop"


def _last_chunk(driver: Driver) -> Any:
    chunks: list[Any] = []

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True), chunks.append)

    driver.run(driver.transport(PLAIN), program)
    return chunks[-1]


@pytest.mark.parametrize("absent", [{}, {"stream_options": openai.NOT_GIVEN}], ids=["", "sentinel"])
def test_usage_is_requested_if_the_caller_has_no_preference(
    seen: Captured, absent: dict[str, Any]
) -> None:
    """With arguments of latspan's own; the caller's stay as they are."""
    del seen
    kwargs: dict[str, Any] = {"stream": True, **absent}
    before = dict(kwargs)

    with asked_for(request_stream_usage=True):
        assert arguments.with_usage(kwargs) == ASKED
    assert kwargs == before


@pytest.mark.parametrize(
    "kwargs",
    [
        {"stream": True, "stream_options": {"include_usage": False}},
        {"stream": True, "stream_options": {}},
        {"stream": True, "stream_options": None},
        {"stream": True, "extra_body": {"stream_options": {"include_usage": False}}},
        {"stream": False},
        {},
        {"stream": openai.NOT_GIVEN},
    ],
    ids=str,
)
def test_an_explicit_choice_of_the_caller_is_kept(seen: Captured, kwargs: dict[str, Any]) -> None:
    """And so is an answer that is not streamed."""
    del seen
    with asked_for(request_stream_usage=True):
        assert arguments.with_usage(kwargs) is kwargs


def test_the_chunk_with_the_usage_is_handed_through(driver: Driver, seen: Captured) -> None:
    """It has no choices, and is the caller's like any other."""
    with asked_for(request_stream_usage=True):
        last = _last_chunk(driver)

    assert (last.choices, last.usage.completion_tokens) == ([], 5)
    (record,) = seen.records
    assert (record.tokens.source, record.tokens.output) == (TokenSource.PROVIDER, 5)
