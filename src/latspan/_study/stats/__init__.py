"""
Statistics of latency: verdicts on targets, and intervals of percentiles and ratios.

Everything here is arithmetic on counts and ranks. It is exact, without a normal approximation of a
percentile, and needs no package outside the standard library.
"""

from __future__ import annotations

from latspan._study.stats._binomial import at_least, at_most
from latspan._study.stats._intervals import (
    Interval,
    percentile_ranks,
    values_needed_for_interval,
    wilson_interval,
)
from latspan._study.stats._verdict import (
    TargetVerdict,
    Verdict,
    requests_needed,
    target_verdict,
)

__all__ = [
    "Interval",
    "TargetVerdict",
    "Verdict",
    "at_least",
    "at_most",
    "percentile_ranks",
    "requests_needed",
    "target_verdict",
    "values_needed_for_interval",
    "wilson_interval",
]
