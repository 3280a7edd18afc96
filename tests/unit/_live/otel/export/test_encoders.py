"""Messages encoded in parts are those of the SDK, and the SDK's own classes stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import requests
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics.export import AggregationTemporality, MetricsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from latspan._base.slices import Slices
from latspan._live.otel.export import (
    MetricsExporter,
    metrics_parts,
    otlp_metric_exporter,
    otlp_span_exporter,
    readings_of,
)
from latspan._live.otel.export._encoders import logs_in_parts, spans_in_parts, with_encoder
from latspan._live.otel.export._http_session import HttpSession
from latspan._live.otel.export._metrics_encoder import metrics_encoder
from latspan._live.otel.export._self_metrics import About
from latspan._model.metrics import MetricValue
from latspan._model.recording import Recorder, RequestRecord
from latspan._model.segments import Segment
from latspan.testing import ManualClock
from support.otlp import attributes_of
from support.records import RECORD

RESOURCE = Resource({"service.name": "test"}, "https://example.test/schema")


class Receiving(HttpSession):
    """Accepts every message and keeps its body."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # noqa: ARG002
        """Answer at once."""
        assert isinstance(request.body, bytes)
        self.bodies.append(request.body)
        response = requests.Response()
        response.status_code = 200
        response.request = request
        response.url = request.url or ""
        response._content = b""  # pyright: ignore[reportPrivateUsage]
        return response


def spans(count: int, resource: Resource = RESOURCE, scope: str = "test") -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for number in range(count):
        provider.get_tracer(scope).start_span("x", attributes={"number": number}).end()
    return list(exporter.get_finished_spans())


def metrics(temporality: AggregationTemporality = AggregationTemporality.DELTA) -> MetricsData:
    """Return histograms of both kinds, with exemplars, zeros and counts of several sizes."""
    recorder = Recorder(ManualClock())
    about = About(
        lambda: readings_of(recorder), start_epoch_ns=1, temporality=AggregationTemporality.DELTA
    )
    for duration_ns in (0, 7, *[10**8] * 130, *[10**9] * 300, 3 * 10**9, 2**46):
        recorder.record(of_duration(duration_ns))
    recorder.record(of_duration(-1))
    interval = recorder.swap_interval()
    [part] = metrics_parts(
        interval,
        resource=RESOURCE,
        temporality=temporality,
        exemplars={key: series.exemplars for key, series in interval.series.items()},
        about=about.metrics(5),
    )
    return part.data


def of_duration(duration_ns: int) -> RequestRecord:
    return RequestRecord(
        name="x",
        kind=RECORD.kind,
        outcome=RECORD.outcome,
        start_epoch_ns=0,
        duration_ns=duration_ns,
        segments=(Segment("queue", 0, max(duration_ns, 0)),),
        metrics={"time_to_first_token": MetricValue(duration_ns)},
        convention={"model": "m", "server_port": "443"},
        attributes={"model": "m"},
        trace_id=7,
        span_id=8,
        sampled=True,
    )


@pytest.mark.parametrize("temporality", list(AggregationTemporality)[1:])
def test_encoded_metrics_equal_those_of_the_sdk(temporality: AggregationTemporality) -> None:
    """As bytes, which are sent over HTTP, and as a message, which is sent over gRPC."""
    data = metrics(temporality)
    encode, expected = metrics_encoder(encode_metrics), encode_metrics(data)

    assert ExportMetricsServiceRequest.FromString(encode(data).SerializeToString()) == expected
    assert encode(data).message() == expected


@pytest.mark.parametrize("value", ["1", 1, True, 1.0], ids=repr)
def test_the_type_of_an_attribute_is_kept(value: str | bool | float) -> None:
    """Encoded attributes are reused, and some of these values are equal."""
    data = metrics()
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            assert isinstance(point.attributes, dict)
            point.attributes["own"] = value

    encoded = metrics_encoder(encode_metrics)(data).SerializeToString()

    assert ExportMetricsServiceRequest.FromString(encoded) == encode_metrics(data)


def test_own_attributes_are_in_the_encoded_points() -> None:
    """Of latspan's metrics, but not of the metrics of the GenAI conventions."""
    recorder = Recorder(ManualClock())
    attributes = {"model": "m", "prompt.version": "7", "user.plan": "\N{SNOWMAN}"}
    recorder.record(replace(of_duration(5), attributes=attributes))
    [part] = metrics_parts(
        recorder.swap_interval(),
        resource=RESOURCE,
        temporality=AggregationTemporality.DELTA,
        exemplars={},
        about=(),
    )
    encoded = metrics_encoder(encode_metrics)(part.data).SerializeToString()
    message = ExportMetricsServiceRequest.FromString(encoded)
    [scope] = message.resource_metrics[0].scope_metrics

    found: dict[str, list[set[str]]] = {}
    for metric in scope.metrics:
        for point in getattr(metric, metric.WhichOneof("data") or "").data_points:
            own = {
                each for each in attributes_of(point.attributes).items() if each[0] in attributes
            }
            found.setdefault(metric.name, []).append({name for name, _ in own})
            assert own <= set(attributes.items())
    assert found == {
        name: [set[str]() if name.startswith("gen_ai.") else {"prompt.version", "user.plan"}]
        for name in (
            "latspan.segment.duration",
            "latspan.time_to_first_token",
            # The record is of a stream in which no visible token came.
            "latspan.time_to_first_visible_token.at_least",
            "gen_ai.client.operation.duration",
        )
    }


def test_the_number_of_encoded_points_is_known_to_an_exporter() -> None:
    """The SDK's exporters count them for their own metrics."""
    data = metrics()

    def points(message: Any) -> list[int]:
        [scope] = message.resource_metrics[0].scope_metrics
        return [
            len(getattr(metric, metric.WhichOneof("data")).data_points) for metric in scope.metrics
        ]

    assert points(metrics_encoder(encode_metrics)(data)) == points(encode_metrics(data))


@pytest.mark.parametrize("count", [1, 64, 200])
def test_spans_are_encoded_in_parts_that_join_to_the_message_of_the_sdk(count: int) -> None:
    """No part has more than 16 spans; several resources and scopes stay apart."""
    sizes: list[int] = []

    def encode(batch: Any) -> Any:
        sizes.append(len(batch))
        return encode_spans(batch)

    ended = [*spans(count), *spans(2, Resource({"service.name": "other"}), scope="other")]
    encoded = spans_in_parts(encode)([*ended, *ended])

    assert max(sizes) <= 16
    assert ExportTraceServiceRequest.FromString(encoded.SerializePartialToString()) == (
        encode_spans([*ended, *ended])
    )


def test_log_records_are_encoded_in_parts_that_join_to_the_message_of_the_sdk() -> None:
    """As spans are."""
    scope = InstrumentationScope("test", attributes={"a": 1})
    records = [
        ReadableLogRecord(LogRecord(timestamp=number, body="x"), RESOURCE, scope)
        for number in range(130)
    ]
    encoded = logs_in_parts(encode_logs)(records)

    assert ExportLogsServiceRequest.FromString(encoded.SerializeToString()) == encode_logs(records)


def test_the_installed_exporters_encode_in_parts() -> None:
    """What latspan creates gives way between spans; the message is that of the SDK."""
    ended, session = spans(65), Receiving()
    pauses: list[float] = []
    exporter = otlp_span_exporter("http/protobuf", "http://127.0.0.1:1/v1/traces", session)
    with Slices(0, pause=pauses.append).here():
        exporter.export(ended)

    [body] = session.bodies
    assert ExportTraceServiceRequest.FromString(body) == encode_spans(ended)
    assert len(pauses) >= 65
    assert type(exporter) is not OTLPSpanExporter
    assert OTLPSpanExporter.export.__globals__["encode_spans"] is encode_spans


def test_the_installed_exporter_of_metrics_sends_equal_messages() -> None:
    """Its body is the message that the SDK would send."""
    session, data = Receiving(), metrics()
    send(otlp_metric_exporter("http/protobuf", "http://127.0.0.1:1/v1/metrics", session), data)

    [body] = session.bodies
    assert ExportMetricsServiceRequest.FromString(body) == encode_metrics(data)


def send(exporter: MetricsExporter, data: MetricsData) -> None:
    exporter.export(data)


def encode_things(things: list[int]) -> int:
    return len(things)


class Exporter:
    """Calls an encoder of its module, as the SDK's exporters do."""

    def export(self, things: list[int], *, twice: bool = False) -> int:
        """Return what the encoder returns."""
        return encode_things(things) * (2 if twice else 1)


def test_a_subclass_gets_another_encoder_and_the_class_stays_unchanged() -> None:
    """Arguments and their defaults stay, too."""

    def encoder(encode: Callable[..., Any]) -> Callable[..., Any]:
        def encode_more(things: list[int]) -> int:
            return 100 + encode(things)

        return encode_more

    ours = with_encoder(Exporter, "encode_things", encoder)()

    assert (ours.export([1]), ours.export([1], twice=True)) == (101, 202)
    assert Exporter().export([1]) == 1


def test_a_class_without_that_call_stays_unchanged() -> None:
    """A later version of an exporter may encode in another way."""
    assert with_encoder(Exporter, "encode_spans", spans_in_parts) is Exporter
    assert with_encoder(int, "encode_spans", spans_in_parts) is int
