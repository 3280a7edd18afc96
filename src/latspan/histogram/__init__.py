"""
Sparse HDR histograms: percentiles to three digits, with exact counts, sums and extremes.

It knows numbers only: no series, no requests, no OpenTelemetry.
"""

from __future__ import annotations

from latspan.histogram._buckets import (
    HIGHEST_NS,
    highest_value_of,
    index_of,
    lowest_value_of,
    middle_value_of,
)
from latspan.histogram._histogram import Histogram
from latspan.histogram._numpy import loaded_numpy
from latspan.histogram._rank import values_needed
from latspan.histogram._spectrum import SpectrumPoint, percentile_spectrum

__all__ = [
    "HIGHEST_NS",
    "Histogram",
    "SpectrumPoint",
    "highest_value_of",
    "index_of",
    "loaded_numpy",
    "lowest_value_of",
    "middle_value_of",
    "percentile_spectrum",
    "values_needed",
]
