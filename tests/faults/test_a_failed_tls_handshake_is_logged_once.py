"""The one speaks TLS and the other does not, or knows nobody who signed: the log says so."""

from __future__ import annotations

from typing import Final

import pytest

from latspan.testing import ScriptedServer
from support.backends import eventually
from support.programs import Driven, driving
from support.receivers import Protocol, refusing
from support.tls import CERTIFICATE
from tests.faults.conftest import QUICK, Unharmed, flush

CALLS: Final = 20

QUIET_GRPC: Final = {"GRPC_VERBOSITY": "NONE"}
"""Its core writes to standard error itself, of every connection that fails."""


REASONS: Final[dict[Protocol, str]] = {
    "http/protobuf": "certificate verify failed",
    "grpc": "Tls handshake failed",
}
"""What the log has of a certificate that nobody signed."""


def warnings_of(app: Driven) -> list[tuple[str, str]]:
    said = app.do("report")["log"]
    return [(name, message) for name, level, message in said if level != "INFO"]


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_failure_is_logged_once(model: ScriptedServer, protocol: Protocol, scheme: str) -> None:
    """Without TLS to a port with it, and with TLS to one whose certificate nobody signed."""
    with (
        refusing(protocol, None, tls=True) as collector,
        driving(
            "is_driven",
            model.base_url,
            LATSPAN_ENDPOINT=collector.url.replace("https", scheme),
            LATSPAN_PROTOCOL=protocol,
            OTEL_BSP_SCHEDULE_DELAY=QUICK["OTEL_BSP_SCHEDULE_DELAY"],
            **QUIET_GRPC,
        ) as app,
    ):
        unharmed = Unharmed(app)
        for _ in unharmed.call(CALLS):
            pass
        assert not app.do("flush 1")["flushed"]
        said = eventually(lambda: warnings_of(app), bool)
        for _ in unharmed.call(CALLS):
            pass
        assert not app.do("flush 1")["flushed"]
        assert warnings_of(app) == said
        app.do("shutdown 0.1")

    assert (collector.asked, collector.taken.metrics) == ([], [])
    ((name, message),) = said
    assert name == "latspan"
    assert "; they are kept, and dropped once the queue is full" in message
    if scheme == "https":
        assert REASONS[protocol] in message


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_certificate_that_is_trusted_is_taken(model: ScriptedServer, protocol: Protocol) -> None:
    """By OpenTelemetry's own variable."""
    with (
        refusing(protocol, None, tls=True) as collector,
        driving(
            "is_driven",
            model.base_url,
            LATSPAN_ENDPOINT=collector.url,
            LATSPAN_PROTOCOL=protocol,
            OTEL_EXPORTER_OTLP_CERTIFICATE=str(CERTIFICATE),
            **QUICK,
        ) as app,
    ):
        for _ in Unharmed(app).call(CALLS):
            pass
        flush(app)
        report = app.do("report")

    taken = [span.span_id.hex() for span in collector.taken.all_spans]
    assert sorted(taken) == sorted(report["ended"])
    assert [line for line in report["log"] if line[1] != "INFO"] == []
