"""
What it costs to record one value, beside the hdrhistogram package and OpenTelemetry's SDK.

How: the same 4,096 lognormal values (median 50 ms, sigma 0.5, fixed seed) into a histogram that has
seen them before, so that every bucket exists; CPU time of the thread. OpenTelemetry's instruments
get seconds, six attributes, and a reader that never collects. The measurements take turns.

latspan records chunk gaps in bulk, when a call has ended; *appended, counted in bulk* is what one
value costs from the append on. A whole call's record, its series' keys included, is a row too.

Caveats: the loop over the values (0.02 µs) is in every figure but the bulk ones. Values that fall
into few buckets are faster, the first value of a series slower.

Reproduce: ``make bench ARGS=record_one_value``
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from hdrh.histogram import HdrHistogram
from opentelemetry.sdk.metrics import Histogram as Instrument
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import (
    Aggregation,
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
)

from _bench import Row, Scale, Target, figure, interleaved
from added_per_call import recorded_us
from latspan.histogram import Histogram
from latspan.histogram._buckets import HIGHEST_NS

__all__ = ["measure"]

_VALUES: Final = 4096
_BATCHES: Final = (8, 64, 512, 4096)
_BOUNDS_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48)
_ATTRIBUTES: Final = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
    "server.address": "model.test",
    "server.port": 443,
}


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    chosen = random.Random(1)  # noqa: S311 - the same values each run
    values = [round(chosen.lognormvariate(0, 0.5) * 50_000_000) for _ in range(_VALUES)]
    measures: dict[str, Callable[[], float]] = {
        "hdrhistogram record_value": _hdr(values),
        "OTel explicit": _otel(values, ExplicitBucketHistogramAggregation(_BOUNDS_S)),
        "OTel exponential": _otel(values, ExponentialBucketHistogramAggregation()),
        "singly": _singly(values),
        "appended, counted in bulk of 512": _appended(values, 512),
        **{f"in bulk of {size}": _bulk(values, size) for size in _BATCHES},
    }
    results = interleaved(list(measures.values()), scale.of(75))
    by_name = dict(zip(measures, map(figure, results), strict=True))
    targets = {
        "singly": Target(us=0.25, due=False),
        "appended, counted in bulk of 512": Target(us=0.25, due=False),
        "in bulk of 512": Target(us=0.12, due=False),
        "in bulk of 4096": Target(us=0.12, due=False),
    }
    rivals = list(measures)[:3]
    for name in list(measures)[3:]:
        for rival in rivals if name == "singly" else rivals[:1]:
            yield Row(
                what=f"record a value, {name}",
                latspan=by_name[name],
                rival=by_name[rival],
                rival_name=rival,
                target=targets.get(name),
            )
    yield Row(
        what="record a call of three chunks, all its series",
        latspan=recorded_us(scale.of(25)),
        rival=by_name["OTel exponential"],
        rival_name="OTel exponential, one value",
    )


def _timed(work: Callable[[], object]) -> Callable[[], float]:
    work()

    def measured() -> float:
        before = time.thread_time_ns()
        work()
        return (time.thread_time_ns() - before) / _VALUES / 1000

    return measured


def _hdr(values: list[int]) -> Callable[[], float]:
    # The package has no types.
    record: Callable[[int], bool] = cast("Any", HdrHistogram(1, HIGHEST_NS, 3)).record_value

    def work() -> None:
        for value in values:
            record(value)

    return _timed(work)


def _otel(values: list[int], aggregation: Aggregation) -> Callable[[], float]:
    reader = InMemoryMetricReader(preferred_aggregation={Instrument: aggregation})
    provider = MeterProvider([reader], shutdown_on_exit=False)
    record = provider.get_meter("benchmark").create_histogram("duration", unit="s").record
    in_seconds = [value / 1e9 for value in values]

    def work() -> None:
        for value in in_seconds:
            record(value, _ATTRIBUTES)

    return _timed(work)


def _singly(values: list[int]) -> Callable[[], float]:
    record = Histogram().record

    def work() -> None:
        for value in values:
            record(value)

    return _timed(work)


def _bulk(values: list[int], size: int) -> Callable[[], float]:
    record_many = Histogram().record_many
    batches = [values[begin : begin + size] for begin in range(0, _VALUES, size)]

    def work() -> None:
        for batch in batches:
            record_many(batch)

    return _timed(work)


def _appended(values: list[int], size: int) -> Callable[[], float]:
    record_many = Histogram().record_many

    def work() -> None:
        pending: list[int] = []
        for value in values:
            pending.append(value)
            if len(pending) == size:
                record_many(pending)
                pending = []

    return _timed(work)
