"""An HTTP exchange outside any call is a segment of the request that waits for it."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import latspan
from latspan._live.instrument._hooks import open_exchange
from latspan._live.operations import HttpExchange, SentRequest, active_scope
from latspan._model.recording import RequestRecord
from latspan._model.segments import Kind, Outcome
from latspan._study.traces import read_otlp
from latspan.testing import Captured, ManualClock, capture
from support.exchanges import promoted_to_chat

MS = 1_000_000

Totals = list[tuple[str, int]]


def opened(host: str = "search.test", port: int = 443) -> HttpExchange:
    exchange = open_exchange(SentRequest(None, "GET", "https", host, port, "/find", None))
    assert exchange is not None
    return exchange


def exchange_of(clock: ManualClock, duration_ns: int, **server: int | str) -> None:
    exchange = opened(**server)  # pyright: ignore[reportArgumentType]
    clock.advance(duration_ns)
    exchange.returned()
    exchange.end(Outcome.COMPLETED)


def totals(record: RequestRecord) -> Totals:
    return [(each.name, each.duration_ns) for each in record.segment_totals]


def request_of(records: Iterable[RequestRecord]) -> RequestRecord:
    (request,) = (record for record in records if record.kind is Kind.REQUEST)
    return request


@contextmanager
def captured(clock: ManualClock, tmp_path: Path) -> Generator[list[Totals]]:
    """Yield the totals of the request: those recorded, and those read from the spans."""
    found: list[Totals] = []
    with capture(clock=clock) as seen:
        yield found
    found += [totals(request_of(seen.records)), totals(request_of(_read(seen, tmp_path)))]


def _read(seen: Captured, tmp_path: Path) -> tuple[RequestRecord, ...]:
    file = tmp_path / "spans.json"
    file.write_text(json.dumps(MessageToDict(encode_spans(seen.spans))))
    return read_otlp(file).records


def test_its_time_is_a_segment_with_the_name_of_the_host(tmp_path: Path) -> None:
    """What is left is the time of the application, with the same sum."""
    clock = ManualClock()
    with captured(clock, tmp_path) as found, latspan.request("ask"):
        clock.advance(2 * MS)
        exchange_of(clock, 30 * MS)
        clock.advance(3 * MS)
        exchange_of(clock, 20 * MS, host="127.0.0.1", port=8080)
        exchange_of(clock, 10 * MS)
    wanted = [
        ("application", 5 * MS),
        ("http 127.0.0.1:8080", 20 * MS),
        ("http search.test", 40 * MS),
    ]
    assert [sorted(each) for each in found] == [wanted, wanted]


def test_it_is_counted_under_its_name_and_has_one_span() -> None:
    """The values are those of requests; the exchange has a record and a span of its own."""
    clock = ManualClock()
    with capture(clock=clock) as seen:
        for _ in range(2):
            with latspan.request("ask"):
                exchange_of(clock, 30 * MS)
        values = seen.snapshot().segment("http search.test", kind="request")
        assert (values.count(), values.max()) == (2, pytest.approx(30, rel=0.01))
    assert sorted(span.name for span in seen.spans) == ["GET", "GET", "ask", "ask"]
    keys = {name for span in seen.spans for name in span.attributes or {}}
    assert not [name for name in keys if "search.test" in name]


def test_a_stage_covers_the_exchanges_inside_it(tmp_path: Path) -> None:
    """The name that the application gave says more than that of a host."""
    clock = ManualClock()
    with captured(clock, tmp_path) as found, latspan.request("ask"):
        with latspan.stage("retrieve"):
            exchange_of(clock, 30 * MS)
            clock.advance(1 * MS)
        exchange_of(clock, 5 * MS)
    wanted = [("retrieve", 31 * MS), ("http search.test", 5 * MS)]
    assert found == [wanted, wanted]


def test_before_a_call_it_is_not_the_applications(tmp_path: Path) -> None:
    """The call keeps its own segments."""
    clock = ManualClock()
    with captured(clock, tmp_path) as found, latspan.request("ask"):
        clock.advance(1 * MS)
        exchange_of(clock, 30 * MS)
        call = promoted_to_chat(opened())
        assert call is not None
        clock.advance(50 * MS)
        call.returned()
        call.end_with_response(None)
        clock.advance(2 * MS)
    wanted = [
        ("application", 3 * MS),
        ("http search.test", 30 * MS),
        ("unattributed", 50 * MS),
    ]
    assert [sorted(each) for each in found] == [wanted, wanted]


def test_of_several_at_once_the_one_that_ended_last_counts(tmp_path: Path) -> None:
    """An exchange with another host, and a stage, while a body is read."""
    clock = ManualClock()
    with captured(clock, tmp_path) as found, latspan.request("ask"):
        first = opened()
        clock.advance(20 * MS)
        exchange_of(clock, 15 * MS, host="other.test")
        clock.advance(5 * MS)
        with latspan.stage("rerank"):
            clock.advance(30 * MS)
        clock.advance(5 * MS)
        first.returned()
        first.end(Outcome.COMPLETED)
    wanted = [("http search.test", 75 * MS), ("rerank", 0)]
    assert [sorted(each) for each in found] == [wanted, wanted]


def test_a_stage_does_not_cover_an_exchange_of_a_request_inside_it(tmp_path: Path) -> None:
    """An agent that is a tool of another one makes its own requests."""
    clock = ManualClock()
    with captured(clock, tmp_path) as found, latspan.request("ask"):
        with latspan.stage("retrieve"), latspan.request("inner"):
            exchange_of(clock, 30 * MS)
            clock.advance(2 * MS)
        with latspan.request("inner"):
            exchange_of(clock, 10 * MS)
            clock.advance(3 * MS)
    wanted = [("application", 5 * MS), ("http search.test", 40 * MS), ("retrieve", 0)]
    assert [sorted(each) for each in found] == [wanted, wanted]


def test_a_body_that_is_read_after_the_request_counts_up_to_the_headers(tmp_path: Path) -> None:
    """The request did not wait for its end."""
    clock = ManualClock()
    with captured(clock, tmp_path) as found:
        with latspan.request("ask"):
            exchange = opened()
            attempt = exchange.open_attempt("GET")
            attempt.pool_acquired_ns = attempt.sent_ns = exchange.now()
            clock.advance(30 * MS)
            attempt.headers_ns = attempt.end_ns = exchange.now()
            exchange.returned()
            clock.advance(40 * MS)
        clock.advance(5 * MS)
        attempt.body_end_ns = exchange.now()
        exchange.end(Outcome.COMPLETED)
    wanted = [("http search.test", 30 * MS), ("application", 40 * MS)]
    assert found == [wanted, wanted]


def test_a_body_that_is_not_read_to_its_end_counts_up_to_the_headers(tmp_path: Path) -> None:
    """The application may do anything while it holds the response."""
    clock = ManualClock()
    with captured(clock, tmp_path) as found, latspan.request("ask"):
        exchange = opened()
        attempt = exchange.open_attempt("GET")
        attempt.sent_ns = exchange.now()
        clock.advance(30 * MS)
        attempt.headers_ns = attempt.end_ns = exchange.now()
        exchange.returned()
        clock.advance(40 * MS)
        exchange.end(Outcome.CLOSED_EARLY)
    wanted = [("http search.test", 30 * MS), ("application", 40 * MS)]
    assert found == [wanted, wanted]


def test_an_exchange_that_is_open_at_the_end_counts_up_to_the_headers() -> None:
    """The application may keep a response that it never reads."""
    clock = ManualClock()
    with capture(clock=clock) as seen:
        with latspan.request("ask"):
            exchange = opened()
            attempt = exchange.open_attempt("GET")
            clock.advance(30 * MS)
            attempt.headers_ns = attempt.end_ns = exchange.now()
            exchange.returned()
            clock.advance(40 * MS)
        assert totals(request_of(seen.records)) == [
            ("http search.test", 30 * MS),
            ("application", 40 * MS),
        ]
        exchange.end(Outcome.ABANDONED)


def test_the_exchange_that_becomes_a_call_is_no_segment_of_its_own() -> None:
    """Otherwise its time before the promotion would be counted under both names."""
    clock = ManualClock()
    with capture(clock=clock) as seen, latspan.request("ask"):
        exchange = opened()
        clock.advance(5 * MS)
        call = promoted_to_chat(exchange)
        assert call is not None
        clock.advance(5 * MS)
        call.end(Outcome.COMPLETED)
    assert "http search.test" not in dict(totals(request_of(seen.records)))


def test_the_number_of_names_is_limited() -> None:
    """A crawler contacts any number of hosts."""
    clock = ManualClock()
    with capture(clock=clock) as seen, latspan.request("crawl"):
        for number in range(60):
            exchange_of(clock, MS, host=f"host-{number}.test")
    found = dict(totals(request_of(seen.records)))
    assert len(found) == 51
    assert found["http (other hosts)"] == 10 * MS


def test_thousands_of_exchanges_keep_their_sum() -> None:
    """Past 512, they are merged."""
    clock = ManualClock()
    with capture(clock=clock) as seen, latspan.request("crawl"):
        for number in range(3_000):
            exchange_of(clock, MS, host=f"host-{number % 2}.test")
            clock.advance(MS)
    assert sorted(totals(request_of(seen.records))) == [
        ("application", 3_000 * MS),
        ("http host-0.test", 1_500 * MS),
        ("http host-1.test", 1_500 * MS),
    ]


def test_the_client_of_a_served_request_does_not_see_the_host() -> None:
    """``Server-Timing`` has the stages only."""
    clock = ManualClock()
    with capture(clock=clock), latspan.request("ask"):
        exchange_of(clock, 30 * MS)
        with latspan.stage("retrieve"):
            clock.advance(4 * MS)
        scope = active_scope()
        assert scope is not None
        assert scope.took_ns() == [("retrieve", 4 * MS), ("total", 34 * MS)]
