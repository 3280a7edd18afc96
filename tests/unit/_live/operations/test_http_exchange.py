"""An HTTP exchange that is promoted to a call of a model."""

from __future__ import annotations

import pytest

import latspan
from latspan._live.instrument._hooks import open_exchange
from latspan._live.operations import HttpExchange, ModelCall, SentRequest, end_left_operations
from latspan._live.operations._open_operations import open_operations
from latspan._model.segments import Outcome
from latspan.testing import ManualClock, capture
from support.exchanges import promoted_to_chat

MS = 1_000_000
SENT = SentRequest(None, "POST", "https", "model.test", 443, "/v1/chat", None)


def _opened() -> HttpExchange:
    exchange = open_exchange(SENT)
    assert exchange is not None
    return exchange


def test_the_call_is_the_only_record_and_begins_with_the_exchange() -> None:
    """The span, its attributes and the start are the exchange's."""
    clock = ManualClock()
    with capture(clock=clock) as seen, latspan.request("answer"):
        exchange = _opened()
        clock.advance(5 * MS)
        call = promoted_to_chat(exchange)
        assert call is not None
        assert (call.span, call.attempts) == (exchange.span, exchange.attempts)
        assert (exchange.finished, call.finished) == (True, False)
        exchange.end(Outcome.ERROR)
        clock.advance(2 * MS)
        call.end(Outcome.COMPLETED)
    child, request = seen.records
    assert (child.kind, child.outcome, child.duration_ns) == ("call", Outcome.COMPLETED, 7 * MS)
    assert (request.kind, request.duration_ns) == ("request", 7 * MS)
    span = next(span for span in seen.spans if span.name == "chat m")
    assert (span.attributes or {})["http.request.method"] == "POST"
    assert (span.attributes or {})["gen_ai.operation.name"] == "chat"


def test_the_provisional_end_of_the_exchange_is_the_calls() -> None:
    """A caller may stop reading before the promotion."""
    with capture() as seen:
        exchange = _opened()
        exchange.leave(Outcome.CLOSED_EARLY, done_ns=exchange.now())
        call = promoted_to_chat(exchange)
        end_left_operations()
        assert call is not None
        assert call.finished
    (record,) = seen.records
    assert (record.kind, record.outcome) == ("call", Outcome.CLOSED_EARLY)


def test_an_exchange_that_has_ended_is_notpromoted_to_chat() -> None:
    """At shutdown, another thread may end it while its body is read."""
    with capture() as seen:
        exchange = _opened()
        exchange.end(Outcome.ABANDONED)
        assert promoted_to_chat(exchange) is None
    (record,) = seen.records
    assert record.kind == "http"


def test_an_exchange_that_was_promoted_keeps_nothing() -> None:
    """The application may keep the response, which may hold the exchange."""
    with capture() as seen:
        exchange = _opened()
        exchange.expect_stream()
        exchange.keep_copy(None, b"an event")
        reads = exchange.reads
        call = promoted_to_chat(exchange)
        assert call is not None
        assert (exchange.reads, exchange.parts, exchange.request) == (None, [], None)
        assert (call.reads, call.parts) == (reads, [b"an event"])
        call.end(Outcome.COMPLETED)
    assert len(seen.records) == 1


def test_the_promotion_survives_a_request_around_it_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call is registered already, so it is recorded."""

    def fail(_: object) -> None:
        raise ValueError

    def ignore(*_: object) -> None:
        pass

    with capture() as seen:
        exchange = _opened()
        monkeypatch.setattr(ModelCall, "join", fail)
        monkeypatch.setattr("latspan._base.internal_errors.log_internal_error", ignore)
        call = promoted_to_chat(exchange)
        assert call is not None
        call.end(Outcome.COMPLETED)
    (record,) = seen.records
    assert record.kind == "call"


def test_a_promotion_that_fails_leaves_the_exchange_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is still recorded, as an exchange."""

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    with capture() as seen:
        exchange = _opened()
        with monkeypatch.context() as patched:
            patched.setattr(ModelCall, "taking_over", fail)
            with pytest.raises(MemoryError):
                promoted_to_chat(exchange)
        assert exchange in open_operations
        exchange.end(Outcome.COMPLETED)
    (record,) = seen.records
    assert record.kind == "http"
