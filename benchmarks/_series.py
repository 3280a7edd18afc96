"""
Recorders with many series, filled within seconds, and an exporter that only encodes.

A thousand values in each of 16,000 series need two million records, and it takes minutes to
determine their series. So these recorders receive stretches instead of records: many values of one
attribute set at once. The recorder's function ``values_of`` is replaced by one that reads
stretches. Locks, intervals, the admission of series and the histograms are the recorder's own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData

from latspan._base.clock import SystemClock
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.otel.export._metrics_encoder import metrics_encoder
from latspan._model.recording import Recorder
from latspan._model.recording import _waiting as waiting_module
from latspan._model.recording._values import Shape, Values

METRICS: Final = (
    "segment",
    "time_to_first_token",
    "time_to_first_visible_token",
    "time_per_output_token",
    "chunk_gap",
    "stall_duration",
    "gen_ai.client.operation.duration",
    "gen_ai.client.operation.time_to_first_chunk",
)
"""
Eight metrics: six are exported as exponential histograms, and two with the explicit buckets that
the GenAI conventions advise.
"""

VALUES: Final = 1_000
"""Number of values that each fill adds to each series, unless it is given another number."""

_ENCODE: Final = metrics_encoder(encode_metrics)

_STRETCH: Final = 64
_SETS_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Successive values of all metrics with one attribute set, in place of as many records."""

    model: str
    metrics: Sequence[str]
    values: list[list[int]]
    sampled: bool
    trace_id: int
    span_id: int
    start_epoch_ns: int = 1_800_000_000 * NS_PER_S
    duration_ns: int = 400_000_000


class EncodingExporter:
    """Metric exporter that encodes as latspan's OTLP exporters do, and discards the message."""

    def export(
        self,
        metrics_data: MetricsData,
        timeout_millis: float = 0,  # noqa: ARG002 - the protocol's
    ) -> MetricExportResult:
        """Encode one message."""
        _ENCODE(metrics_data).SerializeToString()
        return MetricExportResult.SUCCESS

    def shutdown(self, timeout_millis: float = 0) -> None:
        """Do nothing."""


def lognormal_ns(count: int, *, seed: int = 1) -> list[int]:
    """
    Return lognormal values in nanoseconds: median 0.4 s, sigma 0.5.

    Calls with the same seed return the same values.
    """
    chosen = random.Random(seed)  # noqa: S311 - the same values each run
    return [round(chosen.lognormvariate(0, 0.5) * 400_000_000) for _ in range(count)]


def new_recorder() -> Recorder:
    """Return a recorder that :func:`fill` can fill."""
    # The recorder has no parameter for this: it determines the series of a record while counting.
    cast("Any", waiting_module).values_of = _values_of
    return Recorder(SystemClock())


def fill(
    recorder: Recorder,
    sets: int,
    pool: list[int],
    *,
    metrics: Sequence[str] = METRICS,
    sampled: bool = False,
    values: int = VALUES,
) -> None:
    """
    Record values of each metric with each of ``sets`` attribute sets.

    All series grow at the same time, as in an application that mixes calls of many kinds. Values
    are recorded in stretches of 64. The remainder is recorded one by one, so that values wait to be
    counted in every series when the fill ends.

    Args:
        recorder: Recorder from :func:`new_recorder`.
        sets: Number of attribute sets, at most 2,000, the limit for one metric.
        pool: Values in nanoseconds. Each series takes the next 1,000; after the last value, the
            first one follows.
        metrics: Metrics to record, from :data:`METRICS`.
        values: Number of values per series.
        sampled: Whether the traces are kept, so that each series has exemplars.
    """
    chosen = random.Random(3)  # noqa: S311 - identifiers of the usual size
    whole = values - values % _STRETCH
    stretches = [(begin, _STRETCH) for begin in range(0, whole, _STRETCH)]
    stretches += [(begin, 1) for begin in range(whole, values)]
    for begin, length in stretches:
        for which in range(sets):
            columns: list[list[int]] = []
            for metric in range(len(metrics)):
                first = (which * len(metrics) + metric) * VALUES + begin
                first %= len(pool) - _STRETCH
                # New integers, to which nothing else refers, as in records.
                columns.append([value + 1 for value in pool[first : first + length]])
            stretch = _Stretch(
                f"model-{which}",
                metrics,
                columns,
                sampled,
                chosen.getrandbits(128),
                chosen.getrandbits(64),
            )
            recorder.record(cast("Any", stretch))
            if (which + 1) % _SETS_AT_ONCE == 0:
                recorder.drain()
        recorder.drain()


def _values_of(stretch: _Stretch) -> Values:
    """Return the values and the attributes of a stretch, as ``values_of`` does for a record."""
    tag = (("model", stretch.model), ("provider", "openai"))
    names = tuple(
        (metric, "measured", "queue" if metric == "segment" else None, "own")
        for metric in stretch.metrics
    )
    shape = Shape(("call", "client", "completed", tag, ()), (), names)
    return Values(shape, [], [*stretch.values])
