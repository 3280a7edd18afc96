"""Every client in every situation: one finished span a chat, the right outcome and first token."""

from __future__ import annotations

import pytest

from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import RequestRecord, ServedRequest
from tests.clients.truth.programs import Program, with_every_program_in_every_situation
from tests.clients.truth.site import Site, Visit
from tests.clients.truth.situations import Situation


@with_every_program_in_every_situation
def test_it_is(program: Program, situation: Situation, site: Site) -> None:
    """Nothing here depends on how long anything took."""
    if situation.name in program.refuses:
        pytest.skip("its API has other events")
    visit = site.visit(program, situation)

    assert [record.outcome for record in visit.records] == _outcomes(program, situation)
    _has_one_span_a_record(visit)
    _tells_reused_connections(visit)
    for at, (record, served) in enumerate(zip(visit.records, _last_tries(visit), strict=True)):
        tokens = len(served.token_ns) if situation.tokens is None else situation.tokens
        assert record.kind is (Kind.CALL if program.is_sdk or tokens else Kind.HTTP)
        if tokens:
            _has_the_first_token_in_time(record, served, visit.heard[at].when(situation.first_text))
        else:
            assert "time_to_first_token" not in record.metrics
        # One read of bytes may bring several events, and counts once.
        possible = range(max(tokens, 1))
        assert len(record.chunk_gaps) in (possible[-1:] if program.is_sdk else possible)


def _outcomes(program: Program, situation: Situation) -> list[Outcome]:
    """Return how each chat ends; where nobody tries again, each try is a chat."""
    last = [situation.outcome]
    turned_away = [] if program.is_sdk else [Outcome.REJECTED] * (len(situation.scripts) - 1)
    return (turned_away + last) * situation.chats


def _last_tries(visit: Visit) -> list[ServedRequest]:
    """Return of each chat what the server wrote down of its last try."""
    tries = len(visit.served) // len(visit.records)
    return visit.served[tries - 1 :: tries]


def _has_one_span_a_record(visit: Visit) -> None:
    for record, span in zip(visit.records, visit.spans, strict=True):
        assert span.name == record.name
        assert (span.attributes or {})["latspan.outcome"] == record.outcome
        end_ns = record.start_epoch_ns + record.duration_ns
        assert (span.start_time, span.end_time) == (record.start_epoch_ns, end_ns)
        assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns


def _tells_reused_connections(visit: Visit) -> None:
    told = [(span.attributes or {})["latspan.connection.reused"] for span in visit.spans]
    true = [
        served.connection
        in {other.connection for other in visit.served if other.index < served.index}
        for served in _last_tries(visit)
    ]
    assert told == true


def _has_the_first_token_in_time(
    record: RequestRecord, served: ServedRequest, received_ns: int
) -> None:
    """Nobody had it before the server wrote it, and the program had it after latspan saw it."""
    first_token_ns = record.start_epoch_ns + record.metrics["time_to_first_token"].value
    assert served.token_ns[0] <= first_token_ns <= received_ns
