"""nginx that saves a stream up makes a burst of it, and latspan does not take that for speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from latspan import Source, semconv
from latspan.testing import LlamaServer, RequestRecord, capture
from support.chats import ask, duration_ms, most_cut_ms, source_of
from support.nginx import nginx_before
from tests.conftest import Measured
from tests.gateways.conftest import MODEL

TOKENS = 64
"""A burst is less than a tenth of their making even where its reader waits for a processor."""
PROMPTS = [f"{number}: tell me about rivers." for number in range(3)]
MS = 1_000_000


def _seen(
    model: LlamaServer, nginx: Path, folder: Path, *, saves_up: bool
) -> list[tuple[RequestRecord, dict[str, Any]]]:
    """Return each chat's record and what its span says."""
    with (
        nginx_before(model.url, nginx, folder, saves_up=saves_up) as url,
        capture() as captured,
    ):
        chats = ask(f"{url}/v1", PROMPTS, model=MODEL, tokens=TOKENS)
    assert [chat.chunks for chat in chats] == [TOKENS] * len(PROMPTS)
    said = {
        span.context.span_id: dict(span.attributes or {})
        for span in captured.spans
        if span.context is not None
    }
    return [(record, said[record.span_id]) for record in captured.records]


def test_a_saved_up_stream_is_flagged(
    model: LlamaServer, nginx: Path, tmp_path: Path, measured: Measured
) -> None:
    """Its first token is known at the latest, its gaps not at all, its split is the server's."""
    seen = _seen(model, nginx, tmp_path, saves_up=True)

    for record, said in seen:
        assert said[semconv.LATSPAN_BUFFERED] is True
        assert record.metrics["time_to_first_token"].source == "estimated"
        assert {
            semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
            semconv.LATSPAN_TIME_TO_FIRST_TOKEN,
            semconv.LATSPAN_TIME_TO_FIRST_VISIBLE_TOKEN,
        } < set(said[semconv.LATSPAN_ESTIMATED_ATTRIBUTES])
        assert semconv.LATSPAN_TIME_TO_FIRST_TOKEN in said
        assert record.chunk_gaps == ()
        assert record.metrics["time_per_output_token"].source == "server_reported"
        assert source_of(record, "decode") == "server_reported"
    late = [record.metrics["time_to_first_token"].value / record.duration_ns for record, _ in seen]
    # What makes the value worthless: it is the whole answer's.
    assert min(late) > 0.9
    reported = [said["latspan.reported.llama_cpp.predicted_ms"] for _, said in seen]
    decode = [duration_ms(record, "decode") for record, _ in seen]
    apart = [ours - theirs for ours, theirs in zip(decode, reported, strict=True)]
    measured("decode less what the server reports", apart)
    # A report that fits may be cut, and is never stretched but by rounding to nanoseconds.
    for off, (record, _) in zip(apart, seen, strict=True):
        assert -most_cut_ms(record) <= off <= 1e-6


@pytest.mark.alone
def test_the_same_gateway_that_sends_on_is_not(
    model: LlamaServer, nginx: Path, tmp_path: Path
) -> None:
    """The server asks nginx not to save up, by a header of its own."""
    seen = _seen(model, nginx, tmp_path, saves_up=False)

    for record, said in seen:
        assert semconv.LATSPAN_BUFFERED not in said
        assert "buffered" not in record.metrics
        assert len(record.chunk_gaps) == TOKENS - 1
    # A client that got no processor before its first read has none.
    firsts = [record.metrics["time_to_first_token"].source for record, _ in seen]
    assert firsts.count(Source.MEASURED) > len(firsts) / 2
