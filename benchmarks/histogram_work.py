"""
Cost of reading, merging, encoding and exporting histograms, and their size on the wire.

Method: 96 series (six metrics that are exported as exponential histograms, with 16 attribute sets)
have 1,000 lognormal values each (sigma 0.5) from the previous interval and 1,000 from the current
one. The figure is the CPU time of the thread, divided by 96. Each repeat has a new recorder. In
rows that do not name numpy, numpy is hidden, as if the application had not loaded it. All
measurements take turns.

- *snapshot*: ``Recorder.snapshot``, which adds the histogram of the current interval to a copy of
  the total, for each series.
- *swap and export*: ``swap_interval``, then ``OtlpMetrics.send`` with an exporter that encodes to
  protobuf and discards the message. The previous interval was exported in the same way; *first*
  means that there was no export before. The SDK's rival is ``MetricReader.collect`` and the same
  encoding, with as many exponential histograms of at most 160 buckets and the same attributes.
  latspan's histograms are more precise, with about ten times as many buckets.
- *merge*: one histogram of 1,000 values is merged into another, compared with ``HdrHistogram.add``.
- *text*: HdrHistogram's V2 form, compressed and in Base64, written by latspan and by hdrhistogram.

A size on the wire is the size of the messages with all series of 1,000 values, divided by the
number of series: 96 of the exponential metrics, and 32 of the two with explicit buckets. So it
includes attributes. Texts do not include attributes. *gzip* is the size of the whole message after
compression, as an exporter compresses it if that is configured.

Caveats: the SDK converts values when they are recorded (see ``record_one_value``), latspan when
they are read. The dense histograms of hdrhistogram have a range from 1 ns to 24 hours.

Reproduce: ``make bench ARGS=histogram_work``
"""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np
from hdrh.histogram import HdrHistogram
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics import Histogram as Instrument
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    InMemoryMetricReader,
    MetricsData,
)
from opentelemetry.sdk.metrics.view import (
    Aggregation,
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
)
from opentelemetry.sdk.resources import Resource

from _bench import Figure, Row, Scale, Target, figure, interleaved, without_numpy
from _series import METRICS, VALUES, EncodingExporter, fill, lognormal_ns, new_recorder
from latspan._live.otel.export import OtlpMetrics, metrics_parts
from latspan._live.otel.export._points import attributes_of
from latspan._model.recording import Recorder, SeriesKey
from latspan.histogram import Histogram, encode
from latspan.histogram._buckets import HIGHEST_NS

_SETS: Final = 16
_EXPONENTIAL: Final = METRICS[:6]
_EXPLICIT: Final = METRICS[6:]
_SERIES: Final = _SETS * len(_EXPONENTIAL)
_POOL: Final = lognormal_ns((_SERIES + 2) * VALUES)
_RESOURCE: Final = Resource({})
_TARGET: Final = Target(most=100)

Work = Callable[[], object]


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    yield from _times(scale)
    yield from _sizes()


def _times(scale: Scale) -> Iterator[Row]:
    add, hdr_encode = "hdrhistogram add", "hdrhistogram encode"
    sdk = "SDK exponential, collect and encode"
    reader = _sdk(_EXPONENTIAL, ExponentialBucketHistogramAggregation())
    dense = [_dense_of(which) for which in range(_SERIES)]
    measures: dict[str, Callable[[], float]] = {
        add: _timed(lambda: lambda: _added(dense)),
        hdr_encode: _timed(lambda: lambda: [each.encode() for each in dense]),
        sdk: _timed(lambda: lambda: _encoded(_collected(reader))),
        "snapshot": _timed(lambda: _filled_twice().snapshot),
        "merge two histograms": _timed(_merging),
        "write a histogram as text": _timed(_writing),
        "swap and export, cumulative": _timed(
            lambda: _exporting(AggregationTemporality.CUMULATIVE)
        ),
        "swap and export, delta": _timed(lambda: _exporting(AggregationTemporality.DELTA)),
        "swap and export, cumulative, first": _timed(
            lambda: _exporting(AggregationTemporality.CUMULATIVE, first=True)
        ),
        "swap and export, cumulative, with numpy": _with_numpy(
            lambda: _exporting(AggregationTemporality.CUMULATIVE)
        ),
        "swap and export, delta, with numpy": _with_numpy(
            lambda: _exporting(AggregationTemporality.DELTA)
        ),
    }
    rivals = (add, add, hdr_encode, *repeat(sdk, 5))
    with without_numpy():
        results = interleaved(list(measures.values()), scale.of(25))
    by_name = dict(zip(measures, map(figure, results), strict=True))
    for name, rival in zip(list(measures)[3:], rivals, strict=True):
        yield Row(
            what=f"{name}, per series",
            latspan=by_name[name],
            rival=by_name[rival],
            rival_name=rival,
            target=None if rival != sdk or "first" in name else _TARGET,
        )


def _sizes() -> Iterator[Row]:
    ours = {metrics: _message(metrics) for metrics in (_EXPONENTIAL, _EXPLICIT)}
    theirs = {
        metrics: _encoded(_collected(_sdk(metrics, aggregation)))
        for metrics, aggregation in (
            (_EXPONENTIAL, ExponentialBucketHistogramAggregation()),
            (_EXPLICIT, ExplicitBucketHistogramAggregation()),
        )
    }
    forms = {
        _EXPONENTIAL: ("exponential, scale 8", "SDK exponential, 160 buckets"),
        _EXPLICIT: ("advised explicit bounds", "SDK explicit, default bounds"),
    }
    for metrics, (form, rival_name) in forms.items():
        count = _SETS * len(metrics)
        for way, size in (("protobuf", len), ("gzip", _zipped)):
            yield Row(
                what=f"size on the wire per series, {form}, {way}",
                latspan=Figure(size(ours[metrics]) / count),
                rival=Figure(size(theirs[metrics]) / count),
                rival_name=rival_name,
                unit="B",
            )
    texts = [encode(_histogram_of(which)) for which in range(_SERIES)]
    dense = [_dense_of(which).encode() for which in range(_SERIES)]
    yield Row(
        what="a histogram as text",
        latspan=Figure(sum(map(len, texts)) / _SERIES),
        rival=Figure(sum(map(len, dense)) / _SERIES),
        rival_name="hdrhistogram encode",
        unit="B",
    )


def _timed(prepare: Callable[[], Work]) -> Callable[[], float]:
    def measured() -> float:
        work = prepare()
        before = time.thread_time_ns()
        work()
        return (time.thread_time_ns() - before) / _SERIES / 1000

    measured()
    return measured


def _with_numpy(prepare: Callable[[], Work]) -> Callable[[], float]:
    measured = _timed(prepare)

    def with_numpy() -> float:
        sys.modules["numpy"] = np
        try:
            return measured()
        finally:
            del sys.modules["numpy"]

    return with_numpy


def _values_of(which: int) -> list[int]:
    return _POOL[which * VALUES : (which + 1) * VALUES]


def _histogram_of(which: int) -> Histogram:
    histogram = Histogram()
    histogram.record_many(_values_of(which))
    return histogram


def _dense_of(which: int) -> Any:
    # The package has no types.
    histogram: Any = HdrHistogram(1, HIGHEST_NS, 3)
    for value in _values_of(which):
        histogram.record_value(value)
    return histogram


def _added(dense: Sequence[Any]) -> None:
    held = dense[0]
    for each in dense:
        held.add(each)


def _filled_twice() -> Recorder:
    recorder = new_recorder()
    fill(recorder, _SETS, _POOL, metrics=_EXPONENTIAL)
    recorder.swap_interval()
    fill(recorder, _SETS, _POOL[VALUES:], metrics=_EXPONENTIAL)
    return recorder


def _merging() -> Work:
    held = [_histogram_of(which) for which in range(_SERIES)]
    more = [_histogram_of(which + 1) for which in range(_SERIES)]

    def work() -> None:
        for one, other in zip(held, more, strict=True):
            one.merge(other)

    return work


def _writing() -> Work:
    held = [_histogram_of(which) for which in range(_SERIES)]
    return lambda: [encode(each) for each in held]


def _exporting(temporality: AggregationTemporality, *, first: bool = False) -> Work:
    recorder = new_recorder()
    outlet = OtlpMetrics(recorder, EncodingExporter(), resource=_RESOURCE, temporality=temporality)
    fill(recorder, _SETS, _POOL, metrics=_EXPONENTIAL)
    before = recorder.swap_interval()
    if not first:
        outlet.send(before)
    fill(recorder, _SETS, _POOL[VALUES:], metrics=_EXPONENTIAL)
    return lambda: outlet.send(recorder.swap_interval())


def _message(metrics: Sequence[str]) -> bytes:
    recorder = new_recorder()
    fill(recorder, _SETS, _POOL, metrics=metrics)
    parts = metrics_parts(
        recorder.snapshot(), resource=_RESOURCE, temporality=AggregationTemporality.CUMULATIVE
    )
    return b"".join(_encoded(part.data) for part in parts)


def _sdk(metrics: Sequence[str], aggregation: Aggregation) -> InMemoryMetricReader:
    """Return a reader of as many series, with the names and attributes that latspan exports."""
    recorder = new_recorder()
    fill(recorder, _SETS, _POOL, metrics=metrics)
    reader = InMemoryMetricReader(preferred_aggregation={Instrument: aggregation})
    meter = MeterProvider([reader], _RESOURCE, shutdown_on_exit=False).get_meter("latspan")
    instruments = {name: meter.create_histogram(name, unit="s") for name in metrics}
    for which, key in enumerate(recorder.snapshot().series):
        attributes = _attributes_of(key)
        for value in _values_of(which):
            instruments[key.metric].record(value / 1e9, attributes)
    return reader


def _attributes_of(key: SeriesKey) -> dict[str, str | int | bool]:
    return attributes_of(key, conventions=key.metric in _EXPLICIT)


def _collected(reader: InMemoryMetricReader) -> MetricsData:
    data = reader.get_metrics_data()
    if data is None:
        raise SystemExit("the SDK collected nothing")
    return data


def _encoded(data: MetricsData) -> bytes:
    return encode_metrics(data).SerializeToString()


def _zipped(message: bytes) -> int:
    return len(gzip.compress(message))
