"""A call has the tokens that its provider counted, and a pace only where those are the stream's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latspan.recording import RequestRecord
from latspan.testing._capture import Captured
from latspan.units import NS_PER_MS as MS
from tests.clients.conftest import Driver

HEAD = {"id": "a", "created": 1, "model": "m", "object": "chat.completion.chunk"}


def _event(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()


def _delta(**delta: Any) -> bytes:
    return _event({**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def _end(usage: dict[str, Any]) -> list[bytes]:
    stop = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return [
        _event({**HEAD, "choices": [stop]}),
        _event({**HEAD, "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def _used(output: int, reasoning: int, total: int | None) -> dict[str, Any]:
    counted = {
        "prompt_tokens": 5,
        "completion_tokens": output,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    return counted if total is None else {**counted, "total_tokens": total}


def _record(driver: Driver, seen: Captured, pieces: list[bytes]) -> RequestRecord:
    """Return the record of one chat whose stream sends these pieces."""

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.sending(pieces), program)
    (record,) = seen.records
    return record


THOUGHT = [_delta(reasoning_content="so ") for _ in range(2)]
WORDS = [_delta(content="word ") for _ in range(3)]


@pytest.mark.parametrize(
    ("shown", "used", "pace_ns"),
    [
        # Five chunks, 40 ms from the first to the last.
        pytest.param(THOUGHT, _used(41, 20, 46), 1 * MS, id="a part, shown"),
        pytest.param(THOUGHT, _used(21, 20, 46), 1 * MS, id="beside, shown"),
        # Three chunks, 20 ms.
        pytest.param([], _used(41, 20, 46), 1 * MS, id="a part, hidden"),
        pytest.param([], _used(21, 20, 46), 1 * MS, id="beside, hidden"),
        pytest.param([], _used(4, 200, None), None, id="impossible"),
        pytest.param([], _used(20, 20, 25), None, id="nothing left for what was shown"),
    ],
)
def test_the_pace_of_a_stream_is_that_of_the_tokens_it_shows(
    driver: Driver,
    seen: Captured,
    shown: list[bytes],
    used: dict[str, Any],
    pace_ns: int | None,
) -> None:
    """Whether a provider counts reasoning as output or beside it, its total tells."""
    record = _record(driver, seen, [*shown, *WORDS, *_end(used)])
    pace = record.metrics.get("time_per_output_token")
    assert (None if pace is None else pace.value) == pace_ns
    assert ("buffer_needed" in record.metrics) is (pace_ns is not None)
