"""
Conversion of series to the buckets that are exported, from scratch or from the previous export.

A cumulative series holds all values since the start, but only those of the last interval are new.
So the buckets are kept, and only the new values are converted: a series without new values takes no
conversion at all. What is kept is checked against the count and the start of the series. If an
interval is missing in it, the series is converted from scratch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from latspan._base.slices import give_way
from latspan._live.otel.export._exponential import (
    DEFAULT_MAX_BUCKETS,
    DEFAULT_SCALE,
    ExponentialBuckets,
    check_resolution,
    exponential_buckets,
    extended,
)
from latspan._model.recording import Series, SeriesKey
from latspan.histogram import Histogram
from latspan.histogram._buckets import HIGHEST_NS, index_of, lowest_value_of
from latspan.histogram._groups import BucketGroups
from latspan.histogram._histogram import counts_of

_KEPT_PER_VALUE: Final = 2
"""Maximum number of exponential buckets per value that are kept until the next export."""

_HDR_BUCKETS: Final = index_of(HIGHEST_NS) + 1
_AT_ONCE: Final = 256
"""Number of HDR buckets whose explicit bucket is looked up between two pauses."""


class Conversion:
    """
    Conversion of series from scratch.

    Args:
        scale: Finest scale of exponential buckets, in [-10, 20]; 8 keeps the middle of a bucket
            within 0.3 % of a value in it.
        max_buckets: Maximum number of exponential buckets, at least 2; if a histogram spans more,
            its scale is lowered.

    Raises:
        ConfigError: ``scale`` or ``max_buckets`` is out of range.
    """

    def __init__(self, scale: int = DEFAULT_SCALE, max_buckets: int = DEFAULT_MAX_BUCKETS) -> None:
        check_resolution(scale, max_buckets)
        self._scale = scale
        self._max_buckets = max_buckets

    def begin(self, interval: Mapping[SeriesKey, Series]) -> None:
        """Begin an export; ``interval`` holds the values since the previous interval."""

    def exponential(self, key: SeriesKey, series: Series) -> ExponentialBuckets:  # noqa: ARG002
        """Return the exponential buckets of a series."""
        return exponential_buckets(
            series.histogram, scale=self._scale, max_buckets=self._max_buckets
        )

    def explicit(
        self,
        key: SeriesKey,  # noqa: ARG002
        series: Series,
        bounds: tuple[float, ...],
        per_bound: float,
    ) -> tuple[int, ...]:
        """Return the counts of a series in explicit buckets: see :func:`explicit_counts`."""
        return explicit_counts(series.histogram, bounds, per_bound=per_bound)

    def forget_all_but(self, keys: Mapping[SeriesKey, Series]) -> None:
        """Forget the series that are no longer exported."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """
    Buckets of a series at its previous export.

    Args:
        buckets: The buckets: exponential ones, or the counts of explicit ones.
        count: Number of values in them.
        start_epoch_ns: Unix time from which the values were counted.
    """

    buckets: ExponentialBuckets | tuple[int, ...]
    count: int
    start_epoch_ns: int


class KeptConversion(Conversion):
    """Conversion of cumulative series, which keeps their buckets. Not thread-safe."""

    def __init__(self, scale: int = DEFAULT_SCALE, max_buckets: int = DEFAULT_MAX_BUCKETS) -> None:
        super().__init__(scale, max_buckets)
        self._interval: Mapping[SeriesKey, Series] = {}
        self._kept: dict[SeriesKey, _Kept] = {}

    def begin(self, interval: Mapping[SeriesKey, Series]) -> None:
        """Begin an export; ``interval`` holds the values since the previous interval."""
        self._interval = interval

    def exponential(self, key: SeriesKey, series: Series) -> ExponentialBuckets:
        """Return the exponential buckets of a series."""
        kept, added = self._still_valid(key, series)
        buckets = kept
        if isinstance(kept, ExponentialBuckets) and added is not None:
            buckets = extended(
                kept, series.histogram, added, scale=self._scale, max_buckets=self._max_buckets
            )
        if not isinstance(buckets, ExponentialBuckets):
            buckets = super().exponential(key, series)
        # The few values of a new series are converted again faster than their buckets are kept.
        if len(buckets.counts) <= _KEPT_PER_VALUE * series.histogram.count:
            self._keep(key, series, buckets)
        return buckets

    def explicit(
        self, key: SeriesKey, series: Series, bounds: tuple[float, ...], per_bound: float
    ) -> tuple[int, ...]:
        """Return the counts of a series in explicit buckets: see :func:`explicit_counts`."""
        kept, added = self._still_valid(key, series)
        counts = kept
        if isinstance(kept, tuple) and added is not None:
            counts = explicit_counts(added, bounds, per_bound=per_bound, earlier=kept)
        if not isinstance(counts, tuple):
            counts = super().explicit(key, series, bounds, per_bound)
        self._keep(key, series, counts)
        return counts

    def forget_all_but(self, keys: Mapping[SeriesKey, Series]) -> None:
        """Forget the series that are no longer exported."""
        for key in list(self._kept):
            if key not in keys:
                del self._kept[key]
            give_way()
        self._interval = {}

    def _keep(
        self, key: SeriesKey, series: Series, buckets: ExponentialBuckets | tuple[int, ...]
    ) -> None:
        self._kept[key] = _Kept(buckets, series.histogram.count, series.start_epoch_ns)

    def _still_valid(
        self, key: SeriesKey, series: Series
    ) -> tuple[ExponentialBuckets | tuple[int, ...] | None, Histogram | None]:
        """
        Return the kept buckets, and the values that they do not contain yet.

        There are none if an interval was not exported since, or if the series was forgotten as idle
        and started again.
        """
        kept = self._kept.get(key)
        if kept is None or kept.start_epoch_ns != series.start_epoch_ns:
            return None, None
        missing = series.histogram.count - kept.count
        if not missing:
            return kept.buckets, None
        interval = self._interval.get(key)
        if interval is None or interval.histogram.count != missing:
            return None, None
        return kept.buckets, interval.histogram


def explicit_counts(
    histogram: Histogram,
    bounds: tuple[float, ...],
    *,
    per_bound: float = 1,
    earlier: Sequence[int] = (),
) -> tuple[int, ...]:
    """
    Return the number of values in each explicit bucket.

    An HDR bucket that contains a boundary is counted on the side of its lowest value: a value
    equal to a boundary never counts as above it, and a value up to 1/1024 above a boundary may
    count as below it. The bucket of a value never depends on other values, so a count of a
    cumulative series never decreases.

    Args:
        histogram: Histogram of nanoseconds or of plain numbers.
        bounds: Ascending; bucket ``i`` holds the values in ``(bounds[i - 1], bounds[i]]``.
        per_bound: Number of histogram units per unit of the bounds: 1e9 for bounds in seconds.
        earlier: Counts to which these are added; none unless given.

    Returns:
        The counts, one more than there are bounds.

    Source: OpenTelemetry metrics data model, "Histogram".
    """
    counts = counts_of(histogram)
    held = earlier or bytes(len(bounds) + 1)
    added = [*counts.grouped(_groups_of(bounds, per_bound), held, 0)]
    added[bisect_left(bounds, 0)] += counts.zeros
    return tuple(added)


@cache
def _groups_of(bounds: tuple[float, ...], per_bound: float) -> BucketGroups:
    table = bytearray()
    for index in range(_HDR_BUCKETS):
        table.append(bisect_left(bounds, lowest_value_of(index) / per_bound))
        if not index % _AT_ONCE:
            give_way()
    return BucketGroups(bytes(table))
