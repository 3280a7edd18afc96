"""Conversion of a series to an OTLP data point, and the encoded size of a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from opentelemetry.sdk.metrics import Exemplar as OtelExemplar
from opentelemetry.sdk.metrics.export import (
    Buckets,
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
)

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.otel.export._conversion import Conversion
from latspan._live.otel.export._metric_definitions import MetricDefinition
from latspan._live.otel.spans import size_of_attributes
from latspan._model.recording import Exemplar, Series, SeriesKey, Subject
from latspan._model.units import MetricUnit, in_metric_unit

DataPoint = ExponentialHistogramDataPoint | HistogramDataPoint


class _ExponentialPoint(ExponentialHistogramDataPoint):
    """Data point whose counts may be ``bytes``, which JSON does not have."""

    def to_json(self, indent: int | None = 4) -> str:
        """Return the point as JSON, as the SDK's exporter to the console writes it."""
        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        values["positive"] = Buckets(self.positive.offset, tuple(self.positive.bucket_counts))
        return ExponentialHistogramDataPoint(**values).to_json(indent)


_MAX_PORT: Final = 65_535

_OVERFLOW: Final = {"otel.metric.overflow": True}
"""Source: OpenTelemetry metrics SDK specification, "Overflow attribute"."""

_CONVENTION_ATTRIBUTES: Final = {
    **semconv.CONVENTION_ATTRIBUTES,
    "token_type": semconv.GEN_AI_TOKEN_TYPE,
}

_EXPORTED_NAMES: Final = tuple(
    {**semconv.SERIES_ATTRIBUTES, "kind": semconv.LATSPAN_KIND}.get(name)
    for name in (*Subject._fields[:-1], "source", "segment")
)
"""Exported name of each attribute of a series, in the order of the fields; ``None`` for others."""

_NO_BUCKETS: Final = Buckets(0, ())

_FIXED_BYTES: Final = 160
_EXEMPLAR_BYTES: Final = 64


def attributes_of(key: SeriesKey, *, conventions: bool) -> dict[str, str | int | bool]:
    """
    Return the exported attributes that identify a series.

    Args:
        key: The series.
        conventions: Whether its metric is one of the GenAI conventions.
    """
    if key.subject.overflow is not None:
        if conventions:
            return dict(_OVERFLOW)
        overflow: dict[str, str | int | bool] = {
            **_OVERFLOW,
            semconv.LATSPAN_KIND: key.subject.kind,
        }
        if key.subject.outcome is not None:
            overflow[semconv.LATSPAN_OUTCOME] = key.subject.outcome
        return overflow
    if not conventions:
        *named, custom = key.subject
        exported: dict[str, str | int | bool] = {
            name: value
            for name, value in zip(_EXPORTED_NAMES, (*named, key.source, key.segment), strict=True)
            if name is not None and value is not None
        }
        exported.update(custom)
        return exported
    labels: dict[str, str | int | bool] = {
        _CONVENTION_ATTRIBUTES[name]: value
        for name, value in key.attributes.items()
        if name in _CONVENTION_ATTRIBUTES
    }
    port = key.subject.server_port
    # A client may hand over any number as a port; one that OTLP cannot represent costs a message.
    if port is not None and port.isdecimal() and int(port) <= _MAX_PORT:
        labels[semconv.SERVER_PORT] = int(port)
    return labels


def data_point(
    form: MetricDefinition,
    key: SeriesKey,
    series: Series,
    *,
    end_epoch_ns: int,
    exemplars: Sequence[Exemplar],
    conversion: Conversion,
) -> DataPoint:
    """
    Return one series as a data point, according to the definition of its metric.

    Args:
        form: Definition of the metric.
        key: Metric and attributes of the series.
        series: The values of the series, at least one.
        end_epoch_ns: End of the time that the values cover, Unix time in nanoseconds.
        exemplars: Example requests of the series.
        conversion: Converts the series to buckets.
    """
    histogram = series.histogram
    unit = form.held_as
    common: dict[str, Any] = {
        "attributes": attributes_of(key, conventions=form.bounds is not None),
        "start_time_unix_nano": series.start_epoch_ns,
        "time_unix_nano": end_epoch_ns,
        "count": histogram.count,
        "sum": in_metric_unit(histogram.sum_ns, unit),
        "min": in_metric_unit(histogram.min_ns, unit),
        "max": in_metric_unit(histogram.max_ns, unit),
        "exemplars": [_exemplar(each, unit) for each in exemplars],
    }
    if form.bounds is not None:
        per_bound = NS_PER_S if unit == "s" else 1
        return HistogramDataPoint(
            bucket_counts=conversion.explicit(key, series, form.bounds, per_bound),
            explicit_bounds=form.bounds,
            **common,
        )
    buckets = conversion.exponential(key, series)
    common["min"] = buckets.inside(common["min"], last=False)
    common["max"] = buckets.inside(common["max"], last=True)
    return _ExponentialPoint(
        scale=buckets.scale,
        zero_count=buckets.zero_count,
        positive=Buckets(buckets.offset, buckets.counts),
        negative=_NO_BUCKETS,
        flags=0,
        **common,
    )


def largest_size(point: DataPoint) -> int:
    """Return the maximum size of the point in bytes when encoded as protobuf."""
    return (
        _FIXED_BYTES
        + size_of_attributes(point.attributes or {})
        + _EXEMPLAR_BYTES * len(point.exemplars)
        + (
            _size_of_counts(point.positive.bucket_counts)
            if isinstance(point, ExponentialHistogramDataPoint)
            else 8 * (len(point.bucket_counts) + len(point.explicit_bounds))
        )
    )


def _size_of_counts(counts: Sequence[int]) -> int:
    """Return the maximum size of the counts in bytes, as varints of 7 bits per byte."""
    if isinstance(counts, bytes):
        return len(counts) if counts.isascii() else 2 * len(counts)
    return len(counts) * max((max(counts, default=0).bit_length() + 6) // 7, 1)


def _exemplar(exemplar: Exemplar, unit: MetricUnit) -> OtelExemplar:
    return OtelExemplar(
        {},
        in_metric_unit(exemplar.value, unit),
        exemplar.epoch_ns,
        exemplar.span_id,
        exemplar.trace_id,
    )
