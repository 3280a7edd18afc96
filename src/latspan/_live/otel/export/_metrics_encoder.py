"""
Encoding of metrics as OTLP, with a faster encoding of histograms than the SDK's.

The SDK's encoder creates an integer for each bucket of a data point, and copies the point three
times into messages that take eight bytes per bucket. For latspan's histograms, which have a
thousand buckets, that takes more time than everything else in an export. Here each data point
becomes bytes at once, and the message is put together from them. Names, resource, scope and other
metrics are encoded by the SDK. The result equals that of the SDK.

Source: OTLP 1.9, ``opentelemetry/proto/metrics/v1/metrics.proto``; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.sdk.metrics.export import (
    Buckets,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
)

from latspan._base.slices import PacedList, give_way
from latspan._live.otel.export._encoders import field, varint

# Tags of length-delimited fields: the field's number times eight, plus two.
_RESOURCE_METRICS: Final = b"\x0a"
_SCOPE_METRICS: Final = b"\x12"
_METRICS: Final = b"\x12"
_HISTOGRAM: Final = b"\x4a"
_EXPONENTIAL_HISTOGRAM: Final = b"\x52"
_DATA_POINTS: Final = b"\x0a"
_POSITIVE: Final = b"\x42"
_NEGATIVE: Final = b"\x4a"
_BUCKET_COUNTS: Final = b"\x12"

_Encode = Callable[[MetricsData], ExportMetricsServiceRequest]


class _Points(NamedTuple):
    """
    Encoded data points of one metric.

    Args:
        tag: Tag of the histogram in its metric.
        name: Name of that field.
        fields: The points, each as a field of the histogram.
    """

    tag: bytes
    name: str
    fields: Sequence[bytes]


class EncodedMetrics:
    """
    OTLP message whose histograms are encoded, with what the SDK's exporters use of a message.

    Args:
        envelope: The message, in which each histogram has as many points as it should, all of them
            empty.
        histograms: The encoded points of each histogram, by its place among the metrics.
    """

    __slots__ = ("_envelope", "_histograms")

    def __init__(
        self, envelope: ExportMetricsServiceRequest, histograms: Mapping[int, _Points]
    ) -> None:
        self._envelope = envelope
        self._histograms = histograms

    @property
    def resource_metrics(self) -> Any:
        """The parts of the message; exporters only count their data points."""
        return self._envelope.resource_metrics

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name in the generated class
        """Return the message as bytes."""
        [resource_metrics] = self._envelope.resource_metrics
        [scope_metrics] = resource_metrics.scope_metrics
        scope = metrics_pb2.ScopeMetrics(
            scope=scope_metrics.scope, schema_url=scope_metrics.schema_url
        )
        resource = metrics_pb2.ResourceMetrics(
            resource=resource_metrics.resource, schema_url=resource_metrics.schema_url
        )
        # The bytes are joined once, from the innermost fields outwards.
        pieces = [scope.SerializeToString()]
        for place, metric in enumerate(scope_metrics.metrics):
            pieces += field(_METRICS, self._serialized(place, metric))
            give_way()
        pieces = [resource.SerializeToString(), *field(_SCOPE_METRICS, pieces)]
        return b"".join(field(_RESOURCE_METRICS, pieces))

    def _serialized(self, place: int, metric: metrics_pb2.Metric) -> list[bytes]:
        points = self._histograms.get(place)
        if points is None:
            return [metric.SerializeToString()]
        named = metrics_pb2.Metric(
            name=metric.name, description=metric.description, unit=metric.unit
        )
        histogram = getattr(metric, points.name)
        temporality = type(histogram)(aggregation_temporality=histogram.aggregation_temporality)
        return [
            named.SerializeToString(),
            *field(points.tag, [*points.fields, temporality.SerializeToString()]),
        ]

    def message(self) -> ExportMetricsServiceRequest:
        """Return the message as an object of the generated class."""
        [resource_metrics] = self._envelope.resource_metrics
        [scope_metrics] = resource_metrics.scope_metrics
        for place, points in self._histograms.items():
            histogram = getattr(scope_metrics.metrics[place], points.name)
            del histogram.data_points[:]
            for point in PacedList(points.fields):
                histogram.MergeFromString(point)
        return self._envelope


def metrics_encoder(encode_with_the_sdk: _Encode) -> Callable[[MetricsData], EncodedMetrics]:
    """
    Return an encoder whose messages equal those of the SDK's.

    It encodes metrics of a single resource and scope. Attributes of histograms are texts, truth
    values and numbers.

    Args:
        encode_with_the_sdk: The SDK's encoder.
    """

    def encode(data: MetricsData) -> EncodedMetrics:
        [resource_metrics] = data.resource_metrics
        [scope_metrics] = resource_metrics.scope_metrics
        named = replace(scope_metrics, metrics=list(map(_without_points, scope_metrics.metrics)))
        envelope = encode_with_the_sdk(
            MetricsData([replace(resource_metrics, scope_metrics=[named])])
        )
        give_way()
        messages = envelope.resource_metrics[0].scope_metrics[0].metrics
        histograms: dict[int, _Points] = {}
        for place, metric in enumerate(scope_metrics.metrics):
            if isinstance(metric.data, (ExponentialHistogram, Histogram)):
                histograms[place] = _add_points(messages[place], metric.data)
            give_way()
        return EncodedMetrics(envelope, histograms)

    return encode


def _without_points(metric: Metric) -> Metric:
    if isinstance(metric.data, (ExponentialHistogram, Histogram)):
        return replace(metric, data=replace(metric.data, data_points=[]))
    return metric


def _add_points(
    message: metrics_pb2.Metric, histogram: ExponentialHistogram | Histogram
) -> _Points:
    is_exponential = isinstance(histogram, ExponentialHistogram)
    name = "exponential_histogram" if is_exponential else "histogram"
    # The points are a list that gives way between two of them: see `PacedList`.
    fields = [b"".join(field(_DATA_POINTS, _encoded(point))) for point in histogram.data_points]
    empty = getattr(message, name)
    empty.aggregation_temporality = histogram.aggregation_temporality
    add = empty.data_points.add
    for _ in fields:
        add()
    return _Points(_EXPONENTIAL_HISTOGRAM if is_exponential else _HISTOGRAM, name, fields)


def _encoded(point: ExponentialHistogramDataPoint | HistogramDataPoint) -> list[bytes]:
    """Return the bytes of a data point, in pieces."""
    pieces: list[bytes] = []
    if isinstance(point, HistogramDataPoint):
        message: Any = metrics_pb2.HistogramDataPoint(
            bucket_counts=point.bucket_counts, explicit_bounds=point.explicit_bounds
        )
    else:
        message = metrics_pb2.ExponentialHistogramDataPoint(
            scale=point.scale, zero_count=point.zero_count, flags=point.flags
        )
        pieces += _buckets(_POSITIVE, point.positive)
        pieces += _buckets(_NEGATIVE, point.negative)
    message.start_time_unix_nano = point.start_time_unix_nano
    message.time_unix_nano = point.time_unix_nano
    message.count = point.count
    message.sum = point.sum
    message.min = point.min
    message.max = point.max
    tag = _TAGS_OF_ATTRIBUTES[type(message)]
    attributes: Mapping[str, Any] = point.attributes or {}
    pieces += [_attribute(tag, *item) for item in attributes.items()]
    for exemplar in point.exemplars:
        shown = message.exemplars.add(time_unix_nano=exemplar.time_unix_nano)
        if exemplar.span_id is not None and exemplar.trace_id is not None:
            shown.span_id = exemplar.span_id.to_bytes(8, "big")
            shown.trace_id = exemplar.trace_id.to_bytes(16, "big")
        for item in (exemplar.filtered_attributes or {}).items():
            _set_attribute(shown.filtered_attributes.add(), *item)
        if isinstance(exemplar.value, int):
            shown.as_int = exemplar.value
        else:
            shown.as_double = exemplar.value
    return [message.SerializeToString(), *pieces]


def _buckets(tag: bytes, buckets: Buckets) -> list[bytes]:
    counts = buckets.bucket_counts
    if not counts:
        return []
    # Below 128 a varint is a single byte with that value.
    if not isinstance(counts, bytes) or not counts.isascii():
        counts = b"".join(map(varint, counts))
    offset = metrics_pb2.ExponentialHistogramDataPoint.Buckets(offset=buckets.offset)
    return field(tag, [offset.SerializeToString(), *field(_BUCKET_COUNTS, [counts])])


_TAGS_OF_ATTRIBUTES: Final = {
    metrics_pb2.ExponentialHistogramDataPoint: b"\x0a",
    metrics_pb2.HistogramDataPoint: b"\x4a",
}
"""Tag of the field with the attributes of a data point."""


@lru_cache(maxsize=4096, typed=True)
def _attribute(tag: bytes, key: str, value: Any) -> bytes:
    """Return an attribute as a field; series share most of their attributes."""
    message = common_pb2.KeyValue()
    _set_attribute(message, key, value)
    return b"".join(field(tag, [message.SerializeToString()]))


def _set_attribute(message: common_pb2.KeyValue, key: str, value: Any) -> None:
    message.key = key
    if isinstance(value, str):
        message.value.string_value = value
    elif isinstance(value, bool):
        message.value.bool_value = value
    elif isinstance(value, int):
        message.value.int_value = value
    else:
        message.value.double_value = value
