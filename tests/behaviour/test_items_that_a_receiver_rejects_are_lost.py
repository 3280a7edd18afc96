"""A receiver accepts a message and reports that it rejected items of it: they count as lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

import latspan
from latspan._live.otel.export._export_errors import export_results
from support.otlp import attributes_of
from support.receivers import Receiver, Refusing, refusing

REJECTED: Final = ExportMetricsServiceResponse()
"""The responses for traces and logs have the same encoding."""
REJECTED.partial_success.rejected_data_points = 1
REJECTED.partial_success.error_message = "too old"

Protocol = Literal["http/protobuf", "grpc"]
Case = tuple[str, str, dict[str, Any], dict[str, str]]

NO_SPANS: Final = {"OTEL_TRACES_EXPORTER": "none"}
CASES: Final[dict[str, Case]] = {
    "spans": ("spans", "spans", {}, {}),
    "metrics": ("data_points", "data points", {}, NO_SPANS),
    "log records": (
        "payloads",
        "raw histograms",
        {"export_raw_histograms": True},
        {**NO_SPANS, "OTEL_METRICS_EXPORTER": "otlp"},
    ),
}


@pytest.fixture(params=["http/protobuf", "grpc"])
def receiver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Refusing]:
    """A receiver that rejects an item of each message; latspan is shut down afterwards."""
    protocol: Protocol = request.param
    monkeypatch.setattr("latspan._base.log._given", set[str]())
    export_results.clear()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
    monkeypatch.setenv("LATSPAN_PROTOCOL", protocol)
    with refusing(protocol, None) as running:
        monkeypatch.setenv("LATSPAN_ENDPOINT", running.url)
        running.answer = REJECTED.SerializeToString()
        yield running
        latspan.shutdown()


def dropped(receiver: Receiver) -> dict[str, int]:
    """Return the received values of ``latspan.dropped`` for refused items, by signal."""
    counts: dict[str, int] = {}
    for metric in receiver.all_metrics:
        for point in metric.sum.data_points if metric.name == "latspan.dropped" else ():
            attributes = attributes_of(point.attributes)
            assert attributes["latspan.reason"] == "refused"
            signal = str(attributes["latspan.signal"])
            counts[signal] = counts.get(signal, 0) + point.as_int
    return counts


@pytest.mark.parametrize("case", CASES)
def test_they_are_counted_logged_and_reported_by_a_flush(
    receiver: Refusing,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    case: str,
) -> None:
    """Whatever they are, and over both protocols; the next flush loses nothing."""
    signal, items, settings, environment = CASES[case]
    doctors = "histograms" if signal != "spans" else signal
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    latspan.configure(**settings)
    with latspan.request("work"):
        pass
    flushed = latspan.force_flush()
    receiver.answer = b""
    with latspan.request("work"):
        pass

    assert (flushed, latspan.force_flush(), latspan.force_flush()) == (False, True, True)
    assert dropped(receiver.taken)[signal] == 1
    assert f"the receiver refused 1 {items}: too old" in caplog.text
    assert export_results[doctors].failed
    assert export_results[doctors].reason in {"it rejected 1 data points", f"it rejected 1 {items}"}
