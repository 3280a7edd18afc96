"""llama.cpp's timings, read from the last chunks of an answer."""

from __future__ import annotations

import pytest

from latspan._model import evidence
from latspan._model.wire import ResponseMetadata

TIMINGS = {
    "cache_n": 3,
    "prompt_n": 12,
    "prompt_ms": 60.5,
    "predicted_n": 20,
    "predicted_ms": 190.25,
}


def test_timings_are_read_wherever_among_the_last_chunks_they_are() -> None:
    """In the finish chunk, or in the usage chunk behind it."""
    answer = ResponseMetadata(True, ({"choices": []}, {"timings": TIMINGS}, {"choices": []}))
    (reported,) = evidence.read(answer)
    assert reported.system == "llama_cpp"
    assert reported.prefill_ns == 60_500_000
    assert reported.decode_ns == 190_250_000
    assert reported.queue_ns is None
    assert reported.queue_until_headers
    assert reported.raw["cache_n"] == 3


def test_the_headers_of_a_complete_response_are_no_evidence_of_the_queue() -> None:
    """They come with the answer, not when a slot is free."""
    (reported,) = evidence.read(ResponseMetadata(False, ({"timings": TIMINGS},)))
    assert not reported.queue_until_headers


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"timings": None},
        {"timings": "fast"},
        {"timings": {"prompt_ms": 1.0}},
        {"timings": {**TIMINGS, "predicted_ms": "190"}},
        {"timings": {**TIMINGS, "predicted_n": True}},
    ],
)
def test_what_is_not_llama_cpps_is_left_alone(body: dict[str, object]) -> None:
    """Another server's field of the same name, or a broken one, is no evidence."""
    assert evidence.read(ResponseMetadata(True, (body,))) == ()
