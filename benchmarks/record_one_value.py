"""
Cost of recording one value, compared with the hdrhistogram package and OpenTelemetry's SDK.

Method: the same 4,096 lognormal values (median 50 ms, sigma 0.5, fixed seed) are recorded
repeatedly. The figure is the CPU time of the thread per value. OpenTelemetry's instruments record
seconds with six attributes, and their reader never collects. All measurements take turns, including
the yardstick.

A *fresh* histogram is created for every 4,096 values, as for each interval, so it holds its counts
as a list of hits. A *full* histogram holds them as counters. Each measurement of latspan records
the values eight times. With numpy, a full histogram then folds its list of hits into the counters
once, and the figure includes this.

*Singly* is ``record``, which appends the value to a buffer and counts 128 values together; the
figure includes the counting. *In bulk* is ``record_many`` with a list. *Appended, counted in bulk
of 512* is the cost from appending the value to a list until it is counted: the chunk gaps of a call
are recorded in this way when the call has ended.

latspan uses numpy for 96 or more values, if the application has loaded it. *With numpy* and
*without numpy* are measured in the same process: for the latter, the module is hidden, as if it had
not been imported.

The last row is the whole record of a call, including the keys of its series.

Caveats: every figure except those for bulk includes the loop over the values (0.02 µs). numpy
receives lists of Python integers, as from the recorder; its own arrays would be faster. Values that
fall into few buckets are recorded faster. The first value of a series takes longer; each *fresh*
histogram includes this once.

Reproduce: ``make bench ARGS=record_one_value``
"""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable, Iterator
from statistics import fmean
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

from _bench import Row, Scale, Target, figure, interleaved, without_numpy, yardstick
from added_per_call import recorded_us
from latspan.histogram import Histogram
from latspan.histogram._buckets import HIGHEST_NS

# latspan uses numpy only if the application has loaded it; this module does not use it itself.
importlib.import_module("numpy")

_VALUES: Final = 4096
_FULL: Final = 8
"""Number of passes over the values after which a list of hits is folded into counters."""

_BOUNDS_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48)
_ATTRIBUTES: Final = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
    "server.address": "model.test",
    "server.port": 443,
}

_SINGLY: Final = Target(most=0.25)
_BULK: Final = {"without numpy": Target(most=0.12), "with numpy": Target(most=0.05)}

Make = Callable[[], Histogram]
"""Function that returns the histogram into which a pass records."""


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    values = _values(_VALUES, seed=1)
    rivals = {
        "hdrhistogram record_value": _hdr(values),
        "OTel explicit": _otel(values, ExplicitBucketHistogramAggregation(_BOUNDS_S)),
        "OTel exponential": _otel(values, ExponentialBucketHistogramAggregation()),
    }
    ours = dict(_ours(values))
    measures = {
        # It takes as long as the others: a short pass could fit entirely in a quiet moment.
        "yardstick": lambda: fmean(yardstick(32)),
        **rivals,
        **{name: measured for name, (measured, _) in ours.items()},
    }
    results = interleaved(list(measures.values()), scale.of(50))
    by_name = dict(zip(measures, map(figure, results), strict=True))
    for name, (_, target) in ours.items():
        for rival in rivals if name == "singly, full" else list(rivals)[:1]:
            yield Row(
                what=f"record a value, {name}",
                latspan=by_name[name],
                rival=by_name[rival],
                rival_name=rival,
                target=target,
                stick=by_name["yardstick"],
            )
    with without_numpy():
        whole_call = recorded_us(scale.of(25))
    yield Row(
        what="record a call of three chunks, all its series",
        latspan=whole_call,
        rival=by_name["OTel exponential"],
        rival_name="OTel exponential, one value",
    )


def _values(count: int, *, seed: int) -> list[int]:
    chosen = random.Random(seed)  # noqa: S311 - the same values each run
    return [round(chosen.lognormvariate(0, 0.5) * 50_000_000) for _ in range(count)]


def _ours(values: list[int]) -> Iterator[tuple[str, tuple[Callable[[], float], Target | None]]]:
    held = Histogram()
    held.record_many(_values(_FULL * _VALUES, seed=2))
    makes: dict[str, Make] = {"fresh": Histogram, "full": lambda: held}
    for form, make in makes.items():
        yield f"singly, {form}", (_singly(values, make), _SINGLY)
        yield f"appended, counted in bulk of 512, {form}", (_appended(values, make), _SINGLY)
    for size in (8, 64, 512, 4096):
        # latspan does not use numpy for smaller batches.
        for numpys in _BULK if size >= 512 else ("without numpy",):
            for form, make in makes.items():
                name = f"in bulk of {size}, {form}, {numpys}"
                measured = _bulk(values, size, make)
                if numpys == "without numpy":
                    measured = _without_numpy(measured)
                yield name, (measured, _BULK[numpys] if size >= 512 else None)


def _without_numpy(measured: Callable[[], float]) -> Callable[[], float]:
    def hidden() -> float:
        with without_numpy():
            return measured()

    return hidden


def _timed(work: Callable[[], object], passes: int = 1) -> Callable[[], float]:
    work()

    def measured() -> float:
        before = time.thread_time_ns()
        for _ in range(passes):
            work()
        return (time.thread_time_ns() - before) / _VALUES / passes / 1000

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


def _singly(values: list[int], make: Make) -> Callable[[], float]:
    def work() -> None:
        histogram = make()
        record = histogram.record
        for value in values:
            record(value)
        _ = histogram.count  # reading it counts the values that still wait

    return _timed(work, _FULL)


def _bulk(values: list[int], size: int, make: Make) -> Callable[[], float]:
    batches = [values[begin : begin + size] for begin in range(0, _VALUES, size)]

    def work() -> None:
        record_many = make().record_many
        for batch in batches:
            record_many(batch)

    return _timed(work, _FULL)


def _appended(values: list[int], make: Make) -> Callable[[], float]:
    def work() -> None:
        record_many = make().record_many
        pending: list[int] = []
        for value in values:
            pending.append(value)
            if len(pending) == 512:
                record_many(pending)
                pending = []

    return _without_numpy(_timed(work, _FULL))
