"""A collector hangs, has no time, or refuses for good: what it took and what was lost add up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from itertools import pairwise
from typing import Final

import pytest

from latspan.testing import ScriptedServer
from support.backends import eventually
from support.collector import calls_counted, dropped_spans
from support.programs import driving
from support.receivers import Protocol, Refusal, Refusing, refusing
from tests.faults.conftest import QUICK, Unharmed, flush

CALLS: Final = 20
RETRY_AFTER_S: Final = 2


def arrived(collector: Refusing) -> list[str]:
    return [span.span_id.hex() for span in collector.taken.all_spans]


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("status", [None, HTTPStatus.SERVICE_UNAVAILABLE], ids=["hangs", "503"])
def test_it_takes_everything_in_the_end(
    model: ScriptedServer, protocol: Protocol, status: HTTPStatus | None
) -> None:
    """Every span once, every call counted, one line in the log for all that time."""
    with (
        refusing(protocol, Refusal(status)) as collector,
        driving(
            "is_driven",
            model.base_url,
            LATSPAN_ENDPOINT=collector.url,
            LATSPAN_PROTOCOL=protocol,
            **QUICK,
        ) as app,
    ):
        unharmed = Unharmed(app)
        for _ in unharmed.call(CALLS):
            pass
        assert eventually(lambda: collector.refused, bool)
        # One flush ends after what was refused: there is nothing that nobody has asked about.
        assert not app.do("flush 5")["flushed"]
        collector.refusal = None
        flush(app)
        report = app.do("report")

    assert sorted(arrived(collector)) == sorted(report["ended"])
    assert dropped_spans(collector.taken.all_metrics) == {}
    assert calls_counted(collector.taken.all_metrics) == unharmed.calls
    assert [name for name, level, _ in report["log"] if level != "INFO"] == ["latspan"]


def in_seconds() -> str:
    return str(RETRY_AFTER_S)


def as_a_date() -> str:
    """Return one that is so far away at least: it has whole seconds only."""
    return formatdate(math.ceil(time.time()) + RETRY_AFTER_S, usegmt=True)


@pytest.mark.parametrize(
    ("status", "retry_after"),
    [
        (HTTPStatus.TOO_MANY_REQUESTS, in_seconds),
        (HTTPStatus.SERVICE_UNAVAILABLE, in_seconds),
        (HTTPStatus.SERVICE_UNAVAILABLE, as_a_date),
    ],
)
def test_no_spans_are_sent_during_the_requested_pause(
    model: ScriptedServer, status: HTTPStatus, retry_after: Callable[[], str]
) -> None:
    """No spans are sent meanwhile, though more end and somebody flushes; then all of them."""
    with (
        refusing("http/protobuf", Refusal(status, retry_after)) as collector,
        driving("is_driven", model.base_url, LATSPAN_ENDPOINT=collector.url, **QUICK) as app,
    ):
        unharmed = Unharmed(app)
        for _ in unharmed.call(CALLS):
            pass
        assert eventually(lambda: collector.refused, lambda count: count >= 2)
        collector.refusal = None
        for _ in unharmed.call(CALLS):
            pass
        flush(app)
        report = app.do("report")

    assert sorted(arrived(collector)) == sorted(report["ended"])
    pauses = [
        after - before for (before, taken, _), (after, *_) in pairwise(collector.asked) if not taken
    ]
    assert len(pauses) >= 2
    assert min(pauses) >= RETRY_AFTER_S


def test_histograms_leave_it_alone_too(model: ScriptedServer) -> None:
    """Where it asks for longer than from one export to the next."""
    with (
        refusing("http/protobuf", Refusal(HTTPStatus.TOO_MANY_REQUESTS, in_seconds)) as collector,
        driving("is_driven", model.base_url, LATSPAN_ENDPOINT=collector.url, **QUICK) as app,
    ):
        for _ in Unharmed(app).call(CALLS):
            pass
        assert eventually(lambda: len(collector.asked_metrics), lambda count: count >= 2) >= 2
        collector.refusal = None
        flush(app)

    pauses = [
        after - before
        for (before, taken), (after, _) in pairwise(collector.asked_metrics)
        if not taken
    ]
    assert min(pauses) >= RETRY_AFTER_S


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_what_it_refuses_for_good_is_counted(model: ScriptedServer, protocol: Protocol) -> None:
    """It is not sent again, and what comes after it is taken."""
    with (
        refusing(protocol, Refusal(HTTPStatus.BAD_REQUEST)) as collector,
        driving(
            "is_driven",
            model.base_url,
            LATSPAN_ENDPOINT=collector.url,
            LATSPAN_PROTOCOL=protocol,
            **QUICK,
        ) as app,
    ):
        unharmed = Unharmed(app)
        for _ in unharmed.call(CALLS):
            pass
        assert not app.do("flush 5")["flushed"]
        collector.refusal = None
        for _ in unharmed.call(CALLS):
            pass
        flush(app)
        flush(app)
        report = app.do("report")

    refused = sum(count for _, taken, count in collector.asked if not taken)
    (loss,) = (message for _, level, message in report["log"] if level == "WARNING")
    assert "they are lost, because this error is permanent" in loss
    assert refused > CALLS
    assert dropped_spans(collector.taken.all_metrics) == {"refused": refused}
    assert len(arrived(collector)) == len(report["ended"]) - refused
    assert set(arrived(collector)) < set(report["ended"])
    assert calls_counted(collector.taken.all_metrics) == unharmed.calls
