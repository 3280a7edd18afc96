"""A collector is killed in mid-traffic, and another takes its place: what was held arrives."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from latspan.testing import ScriptedServer
from support.collector import CollectorAddresses, Written, calls_counted
from support.programs import driving
from tests.faults.conftest import QUICK, Unharmed, flush

CALLS: Final = 60
KILLED_AFTER: Final = 20
BACK_AFTER: Final = 40
QUEUE: Final = 64


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_in_mid_traffic(
    otelcol: Path, model: ScriptedServer, tmp_path: Path, protocol: str
) -> None:
    """Every span that ended is written by the one or the other, and every call is counted."""
    at, written = CollectorAddresses.free(), Written(tmp_path)
    with (
        ExitStack() as collectors,
        driving(
            "is_driven",
            model.base_url,
            LATSPAN_ENDPOINT=at.url(protocol),
            LATSPAN_PROTOCOL=protocol,
            **QUICK,
        ) as app,
    ):
        unharmed = Unharmed(app)
        first = collectors.enter_context(written.by_next(otelcol, at))
        for number in unharmed.call(CALLS):
            if number == KILLED_AFTER:
                first.kill()
                first.wait()
            elif number == BACK_AFTER:
                collectors.enter_context(written.by_next(otelcol, at))
        flush(app)
        report = app.do("report")

    ended = report["ended"]
    assert len(ended) > CALLS
    # What was written, but not said to be when the collector was killed, comes again.
    assert {span.span_id.hex() for span in written.spans} == set(ended)
    assert written.dropped == {}
    assert calls_counted(written.metrics) == unharmed.calls == CALLS
    warnings = [said for said in report["log"] if said[1] != "INFO"]
    assert len(warnings) == 1


def test_with_a_queue_too_small_for_the_outage(
    otelcol: Path, model: ScriptedServer, tmp_path: Path
) -> None:
    """What the queue could not hold is missing, no span more, and counted as that."""
    at, written = CollectorAddresses.free(), Written(tmp_path)
    with (
        ExitStack() as collectors,
        driving(
            "is_driven",
            model.base_url,
            LATSPAN_ENDPOINT=at.url("http/protobuf"),
            OTEL_BSP_MAX_QUEUE_SIZE=str(QUEUE),
            **QUICK,
        ) as app,
    ):
        unharmed = Unharmed(app)
        first = collectors.enter_context(written.by_next(otelcol, at))
        for _ in unharmed.call(KILLED_AFTER):
            pass
        # Nothing is on its way: what was taken, and not said to be, would be counted and come.
        flush(app)
        first.kill()
        first.wait()
        for _ in unharmed.call(CALLS - KILLED_AFTER):
            pass
        last_ones = set(app.do("report")["ended"][-QUEUE:])
        collectors.enter_context(written.by_next(otelcol, at))
        flush(app)
        flush(app)
        report = app.do("report")

    arrived = [span.span_id.hex() for span in written.spans]
    assert len(arrived) == len(set(arrived))
    assert len(report["ended"]) - len(arrived) > QUEUE
    assert written.dropped == {"queue_full": len(report["ended"]) - len(arrived)}
    # The oldest are dropped, the last ones are there.
    assert last_ones <= set(arrived)
    assert calls_counted(written.metrics) == unharmed.calls == CALLS
