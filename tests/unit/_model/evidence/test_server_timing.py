"""The standard header as evidence: stages by latspan's names, in milliseconds."""

from __future__ import annotations

import pytest

from latspan._model.evidence.server_timing import read
from latspan._model.wire import ResponseMetadata


def _answer(value: str, *, streamed: bool = False) -> ResponseMetadata:
    return ResponseMetadata(streamed=streamed, headers={"server-timing": value})


def test_stages_are_read_and_all_of_it_is_kept() -> None:
    """Under the names that the server gave."""
    reported = read(
        _answer("queue;dur=12.5, prefill;dur=30, model_load;dur=2, decode;dur=1, db;dur=7")
    )
    assert reported is not None
    assert reported.system == "server_timing"
    assert reported.queue_ns == 12_500_000
    assert reported.model_load_ns == 2_000_000
    assert reported.prefill_ns == 30_000_000
    assert reported.decode_ns == 1_000_000
    assert not reported.queue_until_headers
    assert reported.raw == {"queue": 12.5, "prefill": 30, "model_load": 2, "decode": 1, "db": 7}


def test_a_header_cannot_contain_the_duration_of_a_stream() -> None:
    """It left before the tokens did."""
    reported = read(_answer("prefill;dur=30, decode;dur=1", streamed=True))
    assert reported is not None
    assert (reported.prefill_ns, reported.decode_ns) == (30_000_000, None)
    assert reported.raw["decode"] == 1


def test_a_stage_that_was_entered_twice_is_both() -> None:
    """A header may be two fields that were joined on the way."""
    reported = read(_answer("queue;dur=1, queue;dur=2"))
    assert reported is not None
    assert reported.queue_ns == 3_000_000
    assert reported.prefill_ns is None


def test_a_gateways_entry_is_not_the_servers() -> None:
    """It is a report of its own, and alone it is none of a model's."""
    reported = read(_answer("gateway;dur=60, queue;dur=1"))
    assert reported is not None
    assert reported.gateway_ns is None
    assert reported.raw == {"queue": 1}
    assert read(_answer("gateway;dur=60")) is None


@pytest.mark.parametrize("value", ["", "db;dur=53", "queue", "queue;dur=x", "cdn-cache;desc=HIT"])
def test_what_names_no_stage_of_a_model_is_no_evidence(value: str) -> None:
    """Content delivery networks send the same header."""
    assert read(_answer(value)) is None


def test_an_answer_without_the_header() -> None:
    """As most are."""
    assert read(ResponseMetadata(streamed=False)) is None


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("total", "is_possible"), [(49, True), (44, False), (0, False)])
def test_a_total_below_its_parts_is_impossible(
    *, streamed: bool, total: float, is_possible: bool
) -> None:
    """A negative time rejects the report; rounding may make a total 5 ms too small."""
    value = f"queue;dur=20, prefill;dur=30, total;dur={total}"
    reported = read(_answer(value, streamed=streamed))
    assert reported is not None
    found_ns = reported.head_ns if streamed else reported.total_ns
    assert found_ns is not None
    assert (found_ns >= 0) is is_possible


def test_the_header_of_a_stream_covers_all_that_it_states() -> None:
    """A decode of 9 s in a header that came after 170 ms contradicts itself."""
    reported = read(_answer("decode;dur=9000, total;dur=9001", streamed=True))
    assert reported is not None
    assert (reported.decode_ns, reported.head_ns) == (None, 9_001_000_000)
    alone = read(_answer("prefill;dur=2, decode;dur=9000", streamed=True))
    assert alone is not None
    assert alone.head_ns == 9_002_000_000
