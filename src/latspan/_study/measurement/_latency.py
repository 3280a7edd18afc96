"""
What is known of one metric over the measured requests.

A percentile over completed requests alone improves when a server fails its slowest requests, or
when users give up slow ones. So each percentile has two forms: ``p(completed)``, and ``p(all)``, in
which a failed request counts as infinitely slow, and a request that was given up as at least as
slow as the time that it took. The latter may be an interval, see :mod:`latspan._model.censoring`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from latspan._model.censoring import Bounds
from latspan._study.stats import TargetVerdict, weighted_quantile, weighted_target_verdict
from latspan.histogram import values_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Origin(StrEnum):
    """Instant from which a time is measured."""

    SCHEDULE = "schedule"
    """When the request was due, so that its wait to be sent counts."""
    START = "start"
    """When the request was sent."""


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """
    What is known of one metric.

    Args:
        metric: Name of the metric.
        origin: Instant from which it is measured.
        low_ns: Smallest possible value of each request, infinite for a failure; shape ``(n,)``.
        high_ns: Largest possible value of each request, infinite if there is no limit; ``(n,)``.
        weight: Number of requests that each stands for; shape ``(n,)``.
        is_completed: Whether each request completed; shape ``(n,)``.
    """

    metric: str
    origin: Origin
    low_ns: NDArray[np.float64]
    high_ns: NDArray[np.float64]
    weight: NDArray[np.float64]
    is_completed: NDArray[np.bool_]

    @property
    def _has_value(self) -> NDArray[np.bool_]:
        return self.is_completed & np.isfinite(self.high_ns)

    @property
    def values_ns(self) -> NDArray[np.float64]:
        """Values of the completed requests, ascending, in nanoseconds."""
        return np.sort(self.low_ns[self._has_value])

    @property
    def count(self) -> int:
        """Number of requests, failed ones and those that were given up included."""
        return round(float(self.weight.sum()))

    @property
    def failed(self) -> int:
        """Number of requests that failed, and of completed streams without a token."""
        return round(float(self.weight[np.isposinf(self.low_ns)].sum()))

    @property
    def cut(self) -> int:
        """Number of requests that were given up before their value was known."""
        return round(float(self.weight[self.low_ns < self.high_ns].sum()))

    def completed(self, percentile: float) -> float | None:
        """Return a percentile of the completed requests; ``None`` if there are too few."""
        chosen = self._has_value
        if chosen.sum() < values_needed(percentile):
            return None
        return weighted_quantile(self.low_ns[chosen], self.weight[chosen], percentile)

    def all(self, percentile: float) -> Bounds | None:
        """
        Return the interval of a percentile of all requests.

        ``None`` if there are too few requests.
        """
        if len(self.low_ns) < values_needed(percentile):
            return None
        return Bounds(
            weighted_quantile(self.low_ns, self.weight, percentile),
            weighted_quantile(self.high_ns, self.weight, percentile),
        )

    def verdict(self, limit_ns: float, percentile: float) -> TargetVerdict:
        """Return what the requests prove about a limit of a percentile."""
        return weighted_target_verdict(self.low_ns, self.high_ns, self.weight, limit_ns, percentile)
