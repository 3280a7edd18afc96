"""The network between an application and its collector is cut, and mended: what waited arrives."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from latspan.testing import Script, ScriptedServer
from support.backends import eventually
from support.collector import CollectorAddresses, Written, calls_counted
from support.namespaces import NO_PROXY, Namespace, namespaces
from support.programs import Driven, driving
from tests.faults.conftest import QUICK, Unharmed, flush

CALLS: Final = 60
CUT_AFTER: Final = 20

QUEUE: Final = 128
BATCH: Final = 32
FILLING: Final = 40
MORE: Final = 120


@dataclass(frozen=True, slots=True)
class Site:
    """
    An application in a namespace, its collector in another.

    Args:
        app: The application.
        network: Where it is.
        written: What the collector has written.
    """

    app: Driven
    network: Namespace
    written: Written


@contextmanager
def site(otelcol: Path, folder: Path, protocol: str, **variables: str) -> Generator[Site]:
    """Run one inside the block. The model is on the application's side of the cable."""
    written = Written(folder)
    script = Script.chat(tokens=5, prefill_ms=1, gap_ms=1)
    with namespaces(1) as (hub, there), ExitStack() as running:
        with hub.entered():
            at = CollectorAddresses.free(hub.address)
            running.enter_context(written.by_next(otelcol, at))
        with there.entered():
            model = running.enter_context(ScriptedServer(script))
            app = running.enter_context(
                driving(
                    "is_driven",
                    model.base_url,
                    LATSPAN_ENDPOINT=at.url(protocol),
                    LATSPAN_PROTOCOL=protocol,
                    **QUICK,
                    **NO_PROXY,
                    **variables,
                )
            )
        yield Site(app, there, written)


def warnings_of(app: Driven) -> list[str]:
    return [message for _, level, message in app.do("report")["log"] if level != "INFO"]


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_in_mid_traffic(otelcol: Path, tmp_path: Path, protocol: str) -> None:
    """Every span arrives, every call is counted, and one line in the log says what it was."""
    with site(otelcol, tmp_path, protocol) as held:
        unharmed = Unharmed(held.app)
        for number in unharmed.call(CALLS):
            if number == CUT_AFTER:
                held.network.cut()
        # Some of it was given up by then.
        assert len(eventually(lambda: warnings_of(held.app), bool)) == 1
        held.network.mend()
        for _ in unharmed.call(CUT_AFTER):
            pass
        flush(held.app)
        report = held.app.do("report")
        assert len(warnings_of(held.app)) == 1

    # A batch whose answer was lost comes again.
    assert {span.span_id.hex() for span in held.written.spans} == set(report["ended"])
    assert held.written.dropped == {}
    assert calls_counted(held.written.metrics) == unharmed.calls == CALLS + CUT_AFTER


def test_more_than_the_queue_holds(otelcol: Path, tmp_path: Path) -> None:
    """What is missing is counted, no span more; and no more spans than it holds are kept."""
    with site(
        otelcol,
        tmp_path,
        "http/protobuf",
        OTEL_BSP_MAX_QUEUE_SIZE=str(QUEUE),
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE=str(BATCH),
    ) as held:
        unharmed = Unharmed(held.app)
        # Before there is a connection: what was given up on an open one, and counted, the kernel
        # goes on sending, and it may arrive after all.
        held.network.cut()
        for _ in unharmed.call(FILLING):
            pass
        filled = held.app.do("report")
        for _ in unharmed.call(MORE):
            pass
        over = held.app.do("report")
        held.network.mend()
        flush(held.app)
        flush(held.app)
        report = held.app.do("report")

    for each in (filled, over):
        assert QUEUE <= each["held"] <= QUEUE + BATCH
    arrived = [span.span_id.hex() for span in held.written.spans]
    assert len(arrived) == len(set(arrived))
    lost = len(report["ended"]) - len(arrived)
    assert lost > MORE
    assert held.written.dropped == {"queue_full": lost}
    assert set(over["ended"][-QUEUE:]) <= set(arrived) <= set(report["ended"])
    assert calls_counted(held.written.metrics) == unharmed.calls
