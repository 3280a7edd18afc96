"""
Sparse HDR histograms: percentiles to three significant digits; exact count, sum and extremes.

Histograms are written and read in HdrHistogram's own text and log formats. The modules for that are
imported on first use. This package handles numbers and files. It does not depend on requests or on
OpenTelemetry, and identifies series only by their tags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._base.lazy import lazy_getattr
from latspan.histogram._histogram import Histogram
from latspan.histogram._rank import values_needed

if TYPE_CHECKING:
    from latspan.histogram._codec import Decoded, decode, encode
    from latspan.histogram._log_lines import LoggedSeries
    from latspan.histogram._log_reader import (
        HistogramLog,
        LoggedInterval,
        TruncatedInterval,
        read_log,
    )
    from latspan.histogram._log_totals import LogTotals
    from latspan.histogram._log_writer import HistogramLogWriter
    from latspan.histogram._precision import FULL_PRECISION, Precision
    from latspan.histogram._spectrum import SpectrumPoint, percentile_spectrum

__all__ = [
    "FULL_PRECISION",
    "Decoded",
    "Histogram",
    "HistogramLog",
    "HistogramLogWriter",
    "LogTotals",
    "LoggedInterval",
    "LoggedSeries",
    "Precision",
    "SpectrumPoint",
    "TruncatedInterval",
    "decode",
    "encode",
    "percentile_spectrum",
    "read_log",
    "values_needed",
]

_ON_FIRST_USE: Final = {
    "FULL_PRECISION": "_precision",
    "Decoded": "_codec",
    "HistogramLog": "_log_reader",
    "HistogramLogWriter": "_log_writer",
    "LogTotals": "_log_totals",
    "LoggedInterval": "_log_reader",
    "LoggedSeries": "_log_lines",
    "Precision": "_precision",
    "SpectrumPoint": "_spectrum",
    "TruncatedInterval": "_log_reader",
    "decode": "_codec",
    "encode": "_codec",
    "percentile_spectrum": "_spectrum",
    "read_log": "_log_reader",
}

__getattr__ = lazy_getattr(__name__, _ON_FIRST_USE)
