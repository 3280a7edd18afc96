"""What transports have in common: an exchange, its tries, and whose they are."""

from __future__ import annotations

from typing import Any

import pytest

from latspan.clock import ManualClock
from latspan.instrument import Exchange
from latspan.segments import Outcome
from latspan.testing import capture

MS = 1_000_000


class Response:
    """A response of no library's."""


def begin(**more: Any) -> Exchange:
    where: dict[str, Any] = {"scheme": "http", "host": "model.test", "port": None, "path": "/"}
    exchange = Exchange.begin("GET", **{**where, **more})
    assert exchange is not None
    return exchange


def test_a_transport_that_tries_again() -> None:
    """It is one exchange with two attempts; what came before the last is `retry`."""
    clock = ManualClock()
    with capture(clock=clock) as seen:
        exchange = begin()
        clock.advance(5 * MS)
        exchange.try_failed(ConnectionResetError())
        exchange.try_failed(OSError("on its way up"))
        clock.advance(20 * MS)
        exchange.try_again()
        clock.advance(7 * MS)
        exchange.try_answered(503)
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


@pytest.mark.parametrize(("apart", "exchanges"), [(False, 1), (True, 2)])
def test_an_exchange_inside_another(apart: bool, exchanges: int) -> None:
    """It is a transport's inside a transport, unless it is said to be apart."""
    with capture() as seen:
        outer = begin()
        with outer.call.active():
            inner = begin(apart=apart)
            inner.failed(OSError())
        outer.failed(OSError())
    assert len(seen.records) == exchanges


def test_the_address_of_a_host_without_a_name() -> None:
    """In a URL an IPv6 address stands in brackets."""
    with capture() as seen:
        begin(host="::1", port=8080, path="/path").failed(OSError())
    (span,) = seen.spans[-1:]
    assert (span.attributes or {})["url.full"] == "http://[::1]:8080/path"
    assert (span.attributes or {})["server.address"] == "::1"


@pytest.mark.parametrize("decoded", [True, False])
def test_a_body_that_is_decoded_by_who_reads_it(decoded: bool) -> None:
    """Only then are the events of a compressed body looked for in what is read."""
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    with capture():
        exchange, response = begin(), Response()
        exchange.answered(200, headers, response, decoded=decoded)
        assert (exchange.call.reads is not None) is decoded
