"""What vLLM and SGLang write on their own spans."""

from __future__ import annotations

from typing import Any

import pytest

from latspan._model.evidence.gen_ai_latency import read_span

MS = 1_000_000
VLLM = {
    "gen_ai.latency.time_in_queue": 0.2,
    "gen_ai.latency.time_to_first_token": 0.71,
    "gen_ai.latency.e2e": 1.61,
    "gen_ai.latency.time_in_model_prefill": 0.5,
    "gen_ai.latency.time_in_model_decode": 0.9,
    "gen_ai.latency.time_in_model_inference": 1.4,
}


def test_the_span_of_a_vllm_contains_the_parts() -> None:
    """In seconds; other attributes are nothing to it."""
    reported = read_span({"gen_ai.request.id": "a", **VLLM})
    assert reported is not None
    assert (reported.queue_ns, reported.prefill_ns) == (200 * MS, 500 * MS)
    assert (reported.decode_ns, reported.total_ns) == (900 * MS, 1_610 * MS)
    assert reported.raw["time_to_first_token"] == 0.71


def test_a_prefill_that_holds_the_queue_is_no_prefill() -> None:
    """SGLang's begins at the API server, and it tells no queue."""
    attributes = {name: value for name, value in VLLM.items() if "queue" not in name}
    reported = read_span(attributes)
    assert reported is not None
    assert (reported.queue_ns, reported.prefill_ns) == (None, None)
    assert reported.decode_ns == 900 * MS
    assert reported.raw["time_in_model_prefill"] == 0.5


@pytest.mark.parametrize(
    "attributes",
    [{}, {"gen_ai.latency.e2e": "1.61"}, {"gen_ai.latency.e2e": True}, {"latency.e2e": 1.61}],
)
def test_another_span_is_no_evidence(attributes: dict[str, Any]) -> None:
    """Nor is text under the right name."""
    assert read_span(attributes) is None


def test_a_time_that_cannot_be_is_negative() -> None:
    """So whoever holds it against a client's times rejects it."""
    reported = read_span({"gen_ai.latency.e2e": float("inf")})
    assert reported is not None
    assert reported.total_ns == -1
    assert reported.raw == {}
