"""
Error of quantiles in each form in which histograms are read or exported.

Method: 100,000 values (20,000 with ``--quick``) from each of four distributions in the range of a
second: a lognormal one (median 0.4 s, sigma 0.5), one with two peaks, one with a heavy tail (5 %
Pareto, alpha 1.2), and one that repeats a single value. The correct quantile is the value at its
rank, rounded up, in the sorted data. A row is the largest relative error of p50, p90, p95, p99 and
p99.9 over all four distributions, in either direction.

Exported histograms do not contain quantiles, so the benchmark estimates them as a backend would:

- exponential buckets of latspan and of the SDK (160, its default): the geometric middle of the
  bucket that contains the rank;
- explicit buckets with the bounds that the GenAI conventions advise: linear interpolation inside
  the bucket, as in Prometheus' ``histogram_quantile``;
- powers of two, as in TraceQL's ``quantile_over_time``: exponential interpolation inside the
  bucket.

latspan's own snapshot, and a histogram that was written as HdrHistogram's text and read back, are
read with ``values_at_percentiles``, which returns the upper end of the bucket.

Caveats: the largest error is not a typical error: explicit buckets are accurate if a bound happens
to be near the quantile. latspan also exports the metrics of the conventions, in the advised
buckets, and their error is as large as with any other tool. If values span a factor of more than
65,536, latspan lowers the scale, which increases the error.

Reproduce: ``make bench ARGS=quantile_error``
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, cast

from opentelemetry.sdk.metrics import Histogram as Instrument
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation

from _bench import Figure, Row, Scale, Target
from latspan import semconv
from latspan._live.otel.export._exponential import exponential_buckets
from latspan.histogram import Histogram, decode, encode
from latspan.histogram._rank import rank_of

_PERCENTILES: Final = (50, 90, 95, 99, 99.9)
_BOUNDS_S: Final = semconv.EXPLICIT_BOUNDS[semconv.METRIC_OPERATION_DURATION]

Estimate = Callable[[list[int]], Sequence[float]]
"""Function that estimates the percentiles, in nanoseconds, of sorted values in nanoseconds."""


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    data = [sorted(values) for values in _distributions(100_000 // 5 if scale.quick else 100_000)]
    exponential = "SDK exponential, 160 buckets"
    rivals = {
        exponential: _worst(_sdk_exponential, data),
        "advised explicit bounds, as Prometheus": _worst(_explicit, data),
        "powers of two, as TraceQL": _worst(_powers_of_two, data),
    }
    for form, estimates in (("snapshot", _snapshot), ("text written and read back", _text)):
        yield Row(
            what=f"worst error of a quantile, {form}",
            latspan=_worst(estimates, data),
            rival=rivals[exponential],
            rival_name=exponential,
            target=Target(most=0.1),
            unit="%",
        )
    sent = _worst(_exponential, data)
    for rival_name, rival in rivals.items():
        yield Row(
            what="worst error of a quantile, OTLP exponential, scale 8",
            latspan=sent,
            rival=rival,
            rival_name=rival_name,
            target=Target(most=0.3),
            unit="%",
        )


def _distributions(count: int) -> Iterator[list[int]]:
    chosen = random.Random(1)  # noqa: S311 - the same values each run

    def lognormal(median_s: float, sigma: float) -> float:
        return median_s * chosen.lognormvariate(0, sigma)

    def heavy_tailed() -> float:
        is_tail = chosen.random() < 0.05
        return min(chosen.paretovariate(1.2), 3600) if is_tail else lognormal(0.3, 0.4)

    kinds: tuple[Callable[[], float], ...] = (
        lambda: lognormal(0.4, 0.5),
        lambda: lognormal(0.15, 0.2) if chosen.random() < 0.8 else lognormal(2, 0.2),
        heavy_tailed,
        lambda: 0.4,
    )
    for kind in kinds:
        yield [round(kind() * 1e9) for _ in range(count)]


def _worst(estimate: Estimate, data: list[list[int]]) -> Figure:
    """Return the largest relative error, in percent."""
    errors = [
        abs(estimated / values[rank_of(percentile, len(values)) - 1] - 1)
        for values in data
        for percentile, estimated in zip(_PERCENTILES, estimate(values), strict=True)
    ]
    return Figure(max(errors) * 100)


def _histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


def _snapshot(values: list[int]) -> Sequence[float]:
    return _histogram_of(values).values_at_percentiles(_PERCENTILES)


def _text(values: list[int]) -> Sequence[float]:
    return decode(encode(_histogram_of(values))).histogram.values_at_percentiles(_PERCENTILES)


def _exponential(values: list[int]) -> Sequence[float]:
    buckets = exponential_buckets(_histogram_of(values))
    return _middles(buckets.scale, buckets.offset, buckets.counts)


def _sdk_exponential(values: list[int]) -> Sequence[float]:
    reader = InMemoryMetricReader(
        preferred_aggregation={Instrument: ExponentialBucketHistogramAggregation()}
    )
    provider = MeterProvider([reader], shutdown_on_exit=False)
    histogram = provider.get_meter("benchmark").create_histogram("duration", unit="s")
    for value in values:
        histogram.record(value / 1e9)
    data = reader.get_metrics_data()
    if data is None:
        raise SystemExit("the SDK collected nothing")
    point = cast("Any", data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points[0])
    return _middles(point.scale, point.positive.offset, point.positive.bucket_counts)


def _middles(scale: int, offset: int, counts: Sequence[int]) -> Sequence[float]:
    places = (place for place, _, _ in _places(counts, exact_ranks=True))
    return [2 ** ((offset + place + 0.5) / 2**scale) * 1e9 for place in places]


def _explicit(values: list[int]) -> Sequence[float]:
    hits = Counter(bisect_left(_BOUNDS_S, value / 1e9) for value in values)
    edges = (0.0, *_BOUNDS_S)
    estimates: list[float] = []
    for place, rank, count in _places([hits[each] for each in range(len(edges))]):
        # As in Prometheus, a quantile above the last bound is estimated as the last bound.
        low, high = edges[place], edges[min(place + 1, len(_BOUNDS_S))]
        estimates.append((low + (high - low) * rank / count) * 1e9)
    return estimates


def _powers_of_two(values: list[int]) -> Sequence[float]:
    hits = Counter((value - 1).bit_length() for value in values)
    found = _places([hits[each] for each in range(64)], exact_ranks=True)
    return [2 ** (place - 1 + rank / count) for place, rank, count in found]


def _places(
    counts: Sequence[int], *, exact_ranks: bool = False
) -> Iterator[tuple[int, float, int]]:
    """
    Yield, for each percentile, its bucket, its rank inside the bucket, and the bucket's count.

    Args:
        counts: Count of each bucket, the lowest bucket first.
        exact_ranks: Whether to round ranks up to integers.
    """
    up_to = list(accumulate(counts))
    for percentile in _PERCENTILES:
        total = up_to[-1]
        rank = rank_of(percentile, total) if exact_ranks else percentile / 100 * total
        place = bisect_left(up_to, rank)
        yield place, rank - (up_to[place] - counts[place]), counts[place]
