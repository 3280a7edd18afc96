"""Totals of one or more logs: one histogram per tag."""

from __future__ import annotations

from sys import getsizeof

from latspan.errors import ConfigError, HistogramFormatError, HistogramPrecisionError
from latspan.histogram._histogram import Histogram
from latspan.histogram._limits import Held
from latspan.histogram._log_lines import LoggedSeries
from latspan.histogram._log_reader import LoggedInterval


class LogTotals:
    """
    Sum of intervals from any number of logs, in any order.

    Attributes:
        intervals: Number of intervals added.
        start_epoch_ns: Unix time of the earliest start, in nanoseconds; 0 if there is none.
        end_epoch_ns: Unix time of the latest end, in nanoseconds.
        series: The merged series, by tag.
    """

    def __init__(self) -> None:
        self.intervals = 0
        self.start_epoch_ns = 0
        self.end_epoch_ns = 0
        self.series: dict[str | None, LoggedSeries] = {}
        self._held = Held(lambda: (each.histogram for each in self.series.values()))

    def add(self, interval: LoggedInterval) -> None:
        """
        Add the series of an interval.

        Raises:
            HistogramPrecisionError: The precision of a series differs from that of the values added
                to it before.
            HistogramFormatError: A series would have 2**63 values or more, or the series together
                take more than 512 MiB.
        """
        start, end = interval.start_epoch_ns, interval.end_epoch_ns
        self.start_epoch_ns = min(self.start_epoch_ns, start) if self.intervals else start
        self.end_epoch_ns = max(self.end_epoch_ns, end) if self.intervals else end
        self.intervals += 1
        for series in interval.series:
            held = self.series.get(series.tag)
            if held is None:
                held = self.series[series.tag] = series._replace(histogram=Histogram())
            if held.precision != series.precision:
                name = "untagged values" if series.tag is None else f"values of {series.tag}"
                raise HistogramPrecisionError(
                    f"{name} were written with {held.precision} and with {series.precision}",
                    hint="read files of one precision at a time: a merged histogram is as coarse"
                    " as the coarsest",
                )
            before = getsizeof(held.histogram)
            try:
                held.histogram.merge(series.histogram)
            except ConfigError as error:
                raise HistogramFormatError(error.message, hint=error.hint) from error
            self._held.add(getsizeof(held.histogram) - before)
