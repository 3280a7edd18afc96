"""What transports have in common: an exchange, its tries, and whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from latspan._live.instrument import Exchange, SentRequest, _bodies, body_tracker
from latspan._live.instrument._promotion import promoted
from latspan._model.segments import Kind, Outcome
from latspan.testing import ManualClock, capture

MS = 1_000_000


class Response:
    """A response of no library's."""


PLAIN = SentRequest(None, "GET", "http", "model.test", 80, "/", None)


def begin(sent: SentRequest = PLAIN, **more: Any) -> Exchange:
    exchange = Exchange.begin(sent, **more)
    assert exchange is not None
    return exchange


def test_a_transport_that_tries_again() -> None:
    """It is one exchange with two attempts; what came before the last is `retry`."""
    clock = ManualClock()
    with capture(clock=clock) as seen:
        exchange = begin()
        clock.advance(5 * MS)
        exchange.attempt_failed(ConnectionResetError())
        exchange.attempt_failed(OSError("on its way up"))
        clock.advance(20 * MS)
        exchange.try_again()
        clock.advance(7 * MS)
        exchange.attempt_answered(503)
        clock.advance(1 * MS)
        exchange.failed(LookupError(), outcome=Outcome.REJECTED, error_type="503")
    (record,) = seen.records
    assert record.outcome is Outcome.REJECTED
    assert record.duration_ns == 33 * MS
    assert {t.name: t.duration_ns for t in record.segment_totals}["retry"] == 25 * MS
    first, second = [span for span in seen.spans if span.name == "GET" and span.parent]
    assert (first.attributes or {})["error.type"] == "ConnectionResetError"
    assert (second.attributes or {})["error.type"] == "503"
    (root,) = [span for span in seen.spans if span.parent is None]
    assert (root.attributes or {})["error.type"] == "503"


class Interrupted(asyncio.CancelledError):
    """A cancellation whose name does not show that it is one."""


@pytest.mark.parametrize(
    ("error", "after"),
    [
        (Interrupted(), "postprocess"),
        (KeyboardInterrupt(), "postprocess"),
        (SystemExit(), "postprocess"),
        (ConnectionResetError(), "retry"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_cancelled_attempt_is_not_followed_by_a_back_off(
    error: BaseException, after: str
) -> None:
    """A call with one attempt has ``retry`` only if that attempt failed before."""
    clock = ManualClock()
    with capture(clock=clock) as seen:
        exchange = begin()
        clock.advance(5 * MS)
        exchange.attempt_failed(error)
        clock.advance(2 * MS)
        exchange.operation.end(Outcome.CANCELLED)
    (record,) = seen.records
    assert [(each.name, each.duration_ns) for each in record.segments][-1] == (after, 2 * MS)


@pytest.mark.parametrize(("apart", "exchanges"), [(False, 1), (True, 2)])
def test_an_exchange_inside_another(apart: bool, exchanges: int) -> None:
    """It is a transport's inside a transport, unless it is said to be apart."""
    with capture() as seen:
        outer = begin()
        with outer.operation.active():
            inner = begin(apart=apart)
            inner.failed(OSError())
        outer.failed(OSError())
    assert len(seen.records) == exchanges


def test_the_address_of_a_host_without_a_name() -> None:
    """In a URL an IPv6 address stands in brackets."""
    with capture() as seen:
        begin(PLAIN._replace(host="::1", port=8080, path="/path")).failed(OSError())
    (span,) = seen.spans[-1:]
    assert (span.attributes or {})["url.full"] == "http://[::1]:8080/path"
    assert (span.attributes or {})["server.address"] == "::1"


EVENT = b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"Hi"}}]}\n\n'


@pytest.mark.parametrize("decoded", [True, False])
def test_a_body_that_is_decoded_by_who_reads_it(decoded: bool) -> None:
    """Only then are the events of a compressed body looked for in what is read."""
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    with capture():
        exchange, response = begin(), Response()
        exchange.response_received(200, headers, response, decoded=decoded)
        watching = body_tracker(response)
        assert watching is not None
        watching.read(watching.reading(), EVENT)
        assert (watching.operation.kind is Kind.CALL) is decoded


def test_a_body_that_two_threads_read_is_promoted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that comes second leaves the call of the first one in place."""

    def promoted_by_another_thread_meanwhile(*arguments: Any) -> None:
        watching.operation = promoted(*arguments) or watching.operation
        assert promoted(*arguments) is None

    monkeypatch.setattr(_bodies, "_promoted", promoted_by_another_thread_meanwhile)
    with capture() as seen:
        exchange, response = begin(), Response()
        exchange.response_received(200, {"content-type": "text/event-stream"}, response)
        found = body_tracker(response)
        assert found is not None
        watching = found
        for data in (EVENT, b"data: [DONE]\n\n"):
            watching.read(watching.reading(), data)
        watching.ended(watching.reading())
    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)


def test_a_body_that_its_library_decodes_after_each_read() -> None:
    """Its events are looked for in what comes out, and stamped with the read."""
    clock = ManualClock()
    headers = {"content-type": "text/event-stream", "content-encoding": "br"}
    with capture(clock=clock) as seen:
        exchange, response = begin(), Response()
        exchange.response_received(200, headers, response)
        watching = body_tracker(response)
        assert watching is not None
        for data in (EVENT, EVENT, b"data: [DONE]\n\n"):
            before = watching.reading()
            clock.advance(20 * MS)
            watching.read(before, b"coded")
            clock.advance(3 * MS)
            watching.decoded(data)
        watching.ended(watching.reading())
    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert record.metrics["time_to_first_token"].value == 20 * MS
    assert [gap.value for gap in record.chunk_gaps] == [23 * MS]


def _gaps_when_read(parts_of: Callable[[bytes], list[bytes]]) -> list[int]:
    """Return the gaps of three events, 20 ms apart, of which each first part is waited for."""
    clock = ManualClock()
    with capture(clock=clock) as seen:
        exchange, response = begin(), Response()
        exchange.response_received(200, {"content-type": "text/event-stream"}, response)
        watching = body_tracker(response)
        assert watching is not None
        for event in (EVENT, EVENT, EVENT, b"data: [DONE]\n\n"):
            for position, part in enumerate(parts_of(event)):
                before = watching.reading()
                clock.advance(20 * MS if position == 0 else 1_000)
                watching.read(before, part)
        reads = watching.operation.reads
        assert reads is not None
        assert len(reads.kinds) == 4
        watching.ended(watching.reading())
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    return [gap.value for gap in record.chunk_gaps]


def test_a_reader_by_lines_sees_the_gaps_of_the_events() -> None:
    """The blank line behind an event comes with it, and is no arrival of its own."""
    assert _gaps_when_read(lambda event: event.splitlines(keepends=True)) == [20_001_000] * 2


def test_a_reader_by_bytes_keeps_one_instant_per_event() -> None:
    """An event arrives when its reader has waited for its first byte; the rest was there."""
    rest = (len(EVENT) - 1) * 1_000
    assert (
        _gaps_when_read(lambda event: [event[i : i + 1] for i in range(len(event))])
        == [20 * MS + rest] * 2
    )


def test_an_event_that_comes_in_two_pieces_arrives_with_the_second() -> None:
    """Its reader waited for both, and could not parse it before."""
    clock = ManualClock()
    with capture(clock=clock) as seen:
        exchange, response = begin(), Response()
        exchange.response_received(200, {"content-type": "text/event-stream"}, response)
        watching = body_tracker(response)
        assert watching is not None
        for part in (EVENT[:30], EVENT[30:], EVENT[:30], EVENT[30:]):
            before = watching.reading()
            clock.advance(10 * MS)
            watching.read(before, part)
        watching.ended(watching.reading())
    (record,) = seen.records
    assert record.metrics["time_to_first_token"].value == 20 * MS
    assert [gap.value for gap in record.chunk_gaps] == [20 * MS]


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "again"])
def test_a_transport_that_sends_twice_through_another(at_once: bool) -> None:
    """Each exchange of the inner transport is a try, and only the outer one ends the exchange."""
    clock = ManualClock()
    with capture(clock=clock) as seen:
        outer = begin()
        with outer.operation.active():
            clock.advance(3 * MS)
            first = begin()
            clock.advance(10 * MS)
            if not at_once:
                first.failed(ConnectionResetError())
                clock.advance(20 * MS)
            second = begin()
            clock.advance(5 * MS)
            second.response_received(200, {}, Response())
        outer.response_received(200, {}, Response())
        assert outer.attempt is second.attempt
        assert (first.operation, first.alone, outer.alone) == (outer.operation, False, True)
        outer.operation.end(Outcome.COMPLETED)
    (record,) = seen.records
    totals = {total.name: total.duration_ns for total in record.segment_totals}
    assert totals["prepare"] == 3 * MS
    assert totals["retry"] == (10 if at_once else 30) * MS
    assert totals["unattributed"] == 5 * MS


def test_an_answer_that_came_before_one_that_was_asked_for_meanwhile() -> None:
    """The call went on with the first answer: what was sent later took none of its time."""
    clock = ManualClock()
    with capture(clock=clock) as seen:
        outer = begin()
        with outer.operation.active():
            first = begin()
            clock.advance(10 * MS)
            second = begin()
            clock.advance(5 * MS)
            first.response_received(200, {}, Response())
            clock.advance(1 * MS)
            second.failed(TimeoutError())
        outer.response_received(200, {}, Response())
        assert outer.attempt is first.attempt
        outer.operation.end(Outcome.COMPLETED)
    (record,) = seen.records
    assert "retry" not in {total.name for total in record.segment_totals}
    tries = [span for span in seen.spans if span.parent is not None and span.name == "GET"]
    assert [(span.attributes or {}).get("error.type") for span in tries] == [None, "TimeoutError"]
