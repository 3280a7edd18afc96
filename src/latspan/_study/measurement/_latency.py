"""
Values of one metric over the measured requests, with the failures among them.

A percentile over completed requests alone improves when a server fails its slowest requests. So
each percentile has two forms: ``p(completed)``, and ``p(all)``, in which a failed request counts as
infinitely slow.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from latspan.histogram import values_needed

__all__ = ["Latency", "Origin"]


class Origin(StrEnum):
    """Instant from which a time is measured."""

    SCHEDULE = "schedule"
    """When the request was due, so that its wait to be sent counts."""
    START = "start"
    """When the request was sent."""


@dataclass(frozen=True, slots=True)
class Latency:
    """
    Values of one metric.

    Args:
        metric: Name of the metric.
        origin: Instant from which it is measured.
        values_ns: Values of the completed requests, ascending, in nanoseconds.
        failed: Number of requests that failed, which have no value, and of completed responses
            without a token, which never have a first one.
    """

    metric: str
    origin: Origin
    values_ns: Sequence[int]
    failed: int

    @classmethod
    def of(cls, metric: str, origin: Origin, values_ns: Iterable[int], failed: int) -> Latency:
        """Return the latency of values in any order."""
        # An array takes 8 bytes per value, and a tuple 40.
        return cls(metric, origin, array("q", sorted(values_ns)), failed)

    @property
    def count(self) -> int:
        """Number of requests, failed ones included."""
        return len(self.values_ns) + self.failed

    def completed(self, percentile: float) -> int | None:
        """Return a percentile of the completed requests; ``None`` if there are too few."""
        if len(self.values_ns) < values_needed(percentile):
            return None
        return self.values_ns[_rank(percentile, len(self.values_ns)) - 1]

    def all(self, percentile: float) -> float | None:
        """
        Return a percentile of all requests; infinite if it falls on a failed one.

        ``None`` if there are too few requests.
        """
        if self.count < values_needed(percentile):
            return None
        rank = _rank(percentile, self.count)
        return self.values_ns[rank - 1] if rank <= len(self.values_ns) else math.inf

    def misses(self, limit_ns: int) -> int:
        """Return the number of requests that took longer than a limit, or failed."""
        return self.count - bisect_right(self.values_ns, limit_ns)


def _rank(percentile: float, count: int) -> int:
    """Return the rank of a percentile: the least one that covers this share of the values."""
    # A tiny tolerance, because 0.95 * 20 is 19.000000000000004 in floating point.
    return max(1, math.ceil(percentile / 100 * count - 1e-9))
