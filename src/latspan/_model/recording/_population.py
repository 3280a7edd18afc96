"""
Population of a metric: its values, and what is known of the requests without a value.

A series that holds lower bounds has the same labels as the series of values; its outcome shows how
each of its values counts:

====================  ===================  ======================================
series                outcome              counts as
====================  ===================  ======================================
``duration``          the caller ended it  a lower bound
``duration``          failed               never
``chunk_gap``         any                  an exact value
``segment``           any                  an exact value, unless also in the next
``segment.at_least``  any                  a lower bound
other metrics         failed               never, although it has a value
other metrics         any other            an exact value
``….at_least``        the caller ended it  a lower bound, 0 if nothing is known
``….at_least``        any other            never
====================  ===================  ======================================

The intervals of the percentiles are those of :func:`latspan._model.censoring.percentile_bounds`,
computed from histograms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from latspan._model.censoring import AT_LEAST, Bounds
from latspan._model.metrics import CHUNK_GAP, DURATION, FIRST_WAITS, LATENCY_METRICS, MORE_IS_BETTER
from latspan._model.recording._series import SEGMENT, Series, SeriesKey
from latspan._model.segments import CUT, FAILURES, Kind
from latspan.histogram import Histogram
from latspan.histogram._buckets import index_of
from latspan.histogram._rank import rank_of

_CUT: Final = frozenset(each.value for each in CUT)
_FAILURES: Final = frozenset(each.value for each in FAILURES)
_SEGMENT_AT_LEAST: Final = SEGMENT + AT_LEAST
_ENDED_PARTS: Final = frozenset({SEGMENT, CHUNK_GAP})
"""Metrics with several values per request, each of which is complete however the request ended."""


@dataclass(frozen=True, slots=True)
class Population:
    """
    What is known of each value of one metric.

    Args:
        exact: Values that are known.
        bounds: Lower bounds of values that are not known; 0 if nothing is known of a value.
        never: Number of values that never came, because their requests failed; each ranks last.
        failed_bounds: Number of the bounds that belong to failed requests.
        undocumented: Number of the bounds that belong to requests that their callers gave up, in
            files that do not show whether these requests have the metric.
    """

    exact: Histogram
    bounds: Histogram = field(default_factory=Histogram)
    never: int = 0
    failed_bounds: int = 0
    undocumented: int = 0

    @property
    def count(self) -> int:
        """Number of values, known or not."""
        return self.exact.count + self.bounds.count + self.never

    @property
    def cut(self) -> int:
        """Number of values that are not known because the caller ended the request."""
        return self.bounds.count - self.failed_bounds

    @property
    def failed(self) -> int:
        """Number of values that are not known because the request failed."""
        return self.never + self.failed_bounds

    def corrected(self, expected_interval_ns: int) -> Population:
        """
        Return a copy with the values that a blocked load generator did not measure.

        Args:
            expected_interval_ns: Intended interval between requests; at least 1.
        """
        exact, bounds = (
            held.corrected_for_coordinated_omission(expected_interval_ns)
            for held in (self.exact, self.bounds)
        )
        return replace(self, exact=exact, bounds=bounds)

    def percentile(self, percentile: float) -> Bounds:
        """
        Return the interval that contains a percentile.

        Args:
            percentile: In [0, 100].

        Returns:
            Its ends, in the unit of the histograms. They are equal if both are in the same bucket:
            then they are never below the true value and at most 1/1024 above it. Otherwise the
            true ends are inside the interval, and each is at most 1/1024 away.
        """
        rank = rank_of(percentile, self.count)
        # The same as `Histogram.value_at_percentile`: the smallest value is known exactly.
        nearest = int(percentile > 0)
        at_high = _at_rank(self.exact, rank)
        high = at_high[nearest]
        if not self.bounds.count:
            return Bounds(high, high)
        merged = self.exact.copy()
        merged.merge(self.bounds)
        low = _at_rank(merged, rank)[0]
        is_known = math.isfinite(high) and index_of(int(low)) == index_of(int(high))
        return Bounds(high if is_known else low, high)

    def fraction_above(self, limit: int) -> Bounds:
        """
        Return the interval that contains the fraction of the values above a limit.

        Args:
            limit: In the unit of the histograms.
        """
        known, bounded = (
            round(held.fraction_above(limit) * held.count) if held.count else 0
            for held in (self.exact, self.bounds)
        )
        surely = known + bounded + self.never
        perhaps = known + self.bounds.count + self.never
        return Bounds(surely / self.count, perhaps / self.count)


def _at_rank(histogram: Histogram, rank: int) -> tuple[float, float]:
    """Return the limits of the value of a rank; infinite if there are fewer values."""
    return (math.inf, math.inf) if rank > histogram.count else histogram.bucket_at_rank(rank)


def population_of(series: Mapping[SeriesKey, Histogram], undocumented: int = 0) -> Population:
    """
    Return what is known of a metric.

    Args:
        series: Its series of values and of lower bounds.
        undocumented: See :class:`Population`.
    """
    exact, bounds = Histogram(), Histogram()
    never = failed_bounds = 0
    for key, histogram in series.items():
        outcome, metric = key.subject.outcome, key.measured_metric
        if key.metric == _SEGMENT_AT_LEAST:
            bounds.merge(histogram)
            failed_bounds += histogram.count if outcome in _FAILURES else 0
        elif metric in _ENDED_PARTS and not key.is_at_least:
            exact.merge(histogram)
        elif outcome in _CUT and (key.is_at_least or metric == DURATION):
            bounds.merge(histogram)
        elif metric in LATENCY_METRICS and (key.is_at_least or outcome in _FAILURES):
            if metric in MORE_IS_BETTER:
                # A failure is the worst value, and the best value ranks last.
                bounds.record_many([0] * histogram.count)
                failed_bounds += histogram.count
            else:
                never += histogram.count
        else:
            exact.merge(histogram)
    if any(key.metric == _SEGMENT_AT_LEAST for key in series):
        exact = _without(exact, bounds)
    if undocumented:
        bounds.record_many([0] * undocumented)
    for histogram in (exact, bounds):
        histogram.compact()
    return Population(exact, bounds, never, failed_bounds, undocumented)


def _without(every: Histogram, some: Histogram) -> Histogram:
    """Return the values that are not among some of them, as far as all of these are there."""
    left = dict(every)
    for index, count in some:
        # Past the cardinality limit, a series of values and its lower bounds may be parted.
        left[index] = max(0, left.get(index, 0) - count)
    return Histogram.from_buckets((index, count) for index, count in left.items() if count)


def rounded_bound(low: float) -> float:
    """Return the lower end of a percentile for a text: the end 4,999.6 of a bucket is 5,000."""
    return float(f"{low:.4g}")


class Unknown(Protocol):
    """Numbers of values of which some are not known."""

    @property
    def count(self) -> int:
        """Number of all values."""
        ...

    @property
    def cut(self) -> int:
        """Number of values that are not known because the caller ended the request."""
        ...

    @property
    def failed(self) -> int:
        """Number of values that are not known because the request failed."""
        ...


def _percent(share: float) -> str:
    """Return a share with two digits, and 100 % without an exponent."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def text_of_unknown(bounds: Bounds, text_of: Callable[[float], str], population: Unknown) -> str:
    """
    Return the text of a percentile that is not known, for example ``≥ 5.0 s (cut 12 %)``.

    Args:
        bounds: Both ends of the percentile.
        text_of: Returns the text of a finite end.
        population: What is known of all values.
    """
    known = bounds.text(lambda end: text_of(rounded_bound(end)))
    if math.isfinite(bounds.high) and known == text_of(rounded_bound(bounds.low)):
        # The ends differ by less than the text shows.
        return known
    shares = [
        f"{word} {_percent(count / population.count)}"
        for word, count in (("cut", population.cut), ("failed", population.failed))
        if count
    ]
    return f"{known} ({', '.join(shares)})"


def undocumented_cuts(
    metric: str, kind: Kind, selected: Mapping[SeriesKey, Series], known: Iterable[SeriesKey]
) -> int:
    """
    Return the number of given-up requests that files of older releases do not describe.

    Such files have no lower bounds, so it is unknown whether a request that was given up had waited
    for its first token, or did not stream.

    Args:
        metric: Metric in the question.
        kind: Kind in the question.
        selected: Series of the requests in the question, of all metrics.
        known: All series of the snapshot.
    """
    if metric not in FIRST_WAITS:
        return 0
    if kind is not Kind.CALL and any(
        key.is_at_least and key.subject.outcome in _CUT for key in known
    ):
        # A request may be given up inside a call or a stage, which then has the open segment.
        return 0
    cut = valued = described = 0
    for key, series in selected.items():
        if key.subject.outcome in _CUT and key.kind is kind:
            count = series.histogram.count
            cut += count if key.metric == DURATION else 0
            valued += count if key.measured_metric == metric else 0
            # Each call that was given up was left in a segment.
            described += count if key.metric == _SEGMENT_AT_LEAST else 0
    return max(0, min(cut - valued, cut - described))
