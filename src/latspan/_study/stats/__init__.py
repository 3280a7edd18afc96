"""
Statistics of latency: verdicts on targets, intervals, and comparisons of measurements.

Verdicts and intervals are exact arithmetic on counts and ranks, from the standard library alone.
Comparisons (quantiles, bootstrap, tests of runs) need numpy, and are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._base.lazy import lazy_getattr
from latspan._study.stats._binomial import at_least, at_most, fraction_above
from latspan._study.stats._intervals import (
    ProportionInterval,
    percentile_ranks,
    values_needed_for_interval,
    wilson_interval,
)
from latspan._study.stats._proportions import hypergeometric_tail, more_often
from latspan._study.stats._verdict import (
    TargetVerdict,
    Verdict,
    requests_needed,
    target_verdict,
    target_verdict_of_weights,
    weighted_target_verdict,
)

if TYPE_CHECKING:
    from latspan._study.stats._beta import student_tail
    from latspan._study.stats._bootstrap import BLOCK, RatioInterval, block_indices, bootstrap_ratio
    from latspan._study.stats._quantiles import WeightedSample, needed_to_compare
    from latspan._study.stats._runs import (
        RunTest,
        compare_runs,
        holm,
        permutation,
        runs_needed,
    )
    from latspan._study.stats._tail_band import tail_band_draws
    from latspan._study.stats._weighted import effective_size, weighted_quantile

__all__ = [
    "BLOCK",
    "ProportionInterval",
    "RatioInterval",
    "RunTest",
    "TargetVerdict",
    "Verdict",
    "WeightedSample",
    "at_least",
    "at_most",
    "block_indices",
    "bootstrap_ratio",
    "compare_runs",
    "effective_size",
    "fraction_above",
    "holm",
    "hypergeometric_tail",
    "more_often",
    "needed_to_compare",
    "percentile_ranks",
    "permutation",
    "requests_needed",
    "runs_needed",
    "student_tail",
    "tail_band_draws",
    "target_verdict",
    "target_verdict_of_weights",
    "values_needed_for_interval",
    "weighted_quantile",
    "weighted_target_verdict",
    "wilson_interval",
]

_NEED_NUMPY: Final = {
    "BLOCK": "_bootstrap",
    "RatioInterval": "_bootstrap",
    "RunTest": "_runs",
    "WeightedSample": "_quantiles",
    "block_indices": "_bootstrap",
    "bootstrap_ratio": "_bootstrap",
    "compare_runs": "_runs",
    "effective_size": "_weighted",
    "holm": "_runs",
    "needed_to_compare": "_quantiles",
    "permutation": "_runs",
    "runs_needed": "_runs",
    "student_tail": "_beta",
    "tail_band_draws": "_tail_band",
    "weighted_quantile": "_weighted",
}

__getattr__ = lazy_getattr(__name__, _NEED_NUMPY)
