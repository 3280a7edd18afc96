"""A call has the tokens that its provider counted, and a pace only where those are the stream's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latspan._base.nanoseconds import NS_PER_MS as MS
from latspan.testing import Captured, RequestRecord
from tests.clients.conftest import Driver

pytestmark = pytest.mark.any_client

HEAD = {"id": "a", "created": 1, "model": "m", "object": "chat.completion.chunk"}


def _event(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()


def _delta(**delta: Any) -> bytes:
    return _event({**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def _end(usage: dict[str, Any]) -> list[bytes]:
    stop: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "stop"}
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


def _text(index: int, text: str, finish_reason: str | None = None) -> bytes:
    choice = {"index": index, "text": text, "finish_reason": finish_reason}
    return _event({**HEAD, "object": "text_completion", "choices": [choice]})


COUNTED = {"prompt_tokens": 4, "completion_tokens": 8, "total_tokens": 12}
COUNTS = [
    _event({**HEAD, "object": "text_completion", "choices": [], "usage": COUNTED}),
    b"data: [DONE]\n\n",
]
SHOWN = [
    *(_text(index, "word") for _ in range(2) for index in range(4)),
    *(_text(index, "", "stop") for index in range(4)),
    *COUNTS,
]
UNSEEN = [
    *(_text(index, "word", "stop") for index in (3, 2, 1)),
    *(_text(0, "word") for _ in range(4)),
    _text(0, "", "stop"),
    *COUNTS,
]
"""The last chunks are all of one answer."""
PROMPTS = ["one", "two", "three", "four"]


@pytest.mark.parametrize(
    ("asks", "pieces"),
    [
        ({"prompt": PROMPTS}, UNSEEN),
        ({"prompt": [[1, 2], [3]], "n": 2}, UNSEEN),
        ({"prompt": "one", "extra_body": {"n": 4}}, UNSEEN),
        ({"prompt": "one", "extra_body": {"prompt": PROMPTS}}, UNSEEN),
        # As a gateway may answer.
        ({"prompt": "one"}, SHOWN),
    ],
)
def test_several_answers_at_once_have_no_pace(
    driver: Driver, seen: Captured, asks: dict[str, Any], pieces: list[bytes]
) -> None:
    """What was counted are the tokens of all, which came interleaved."""

    async def program(client: Any) -> None:
        answer = client.completions.create(model="m", stream=True, **asks)
        await driver.read(await answer if driver.asynchronous else answer)

    driver.run(driver.sending(pieces), program)
    (record,) = seen.records
    assert record.tokens.output == 8
    assert not {"time_per_output_token", "fluidity", "buffer_needed"} & record.metrics.keys()


@pytest.mark.parametrize(
    ("asks", "pieces"),
    [
        ({"prompt": PROMPTS}, UNSEEN),
        ({"prompt": "one", "n": 4}, UNSEEN),
        ({"prompt": "one" * 50_000, "n": 4}, SHOWN),
    ],
)
def test_several_answers_to_a_bare_http_client_have_no_pace(
    driver: Driver, seen: Captured, asks: dict[str, Any], pieces: list[bytes]
) -> None:
    """Its request says so, and if that is too long to be read, so do the chunks."""

    async def program(client: Any) -> None:
        sent = client._client.post("https://model.test/v1/completions", json=asks)
        assert (await sent if driver.asynchronous else sent).status_code == 200

    driver.run(driver.sending(pieces), program)
    (record,) = seen.records
    assert (record.name, record.tokens.output) == ("text_completion", 8)
    assert not {"time_per_output_token", "fluidity", "buffer_needed"} & record.metrics.keys()


def test_one_prompt_in_tokens_is_one_answer(driver: Driver, seen: Captured) -> None:
    """A list of numbers is a single prompt."""
    one = [_text(0, "word") for _ in range(3)]

    async def program(client: Any) -> None:
        answer = client.completions.create(model="m", prompt=[1, 2, 3], stream=True)
        await driver.read(await answer if driver.asynchronous else answer)

    driver.run(driver.sending([*one, *COUNTS]), program)
    (record,) = seen.records
    assert "time_per_output_token" in record.metrics
