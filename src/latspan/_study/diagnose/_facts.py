"""
Facts on which rules depend: bands of units, regressions, and load.

A rule receives :class:`Facts`. They contain only segments, metrics and attributes; a rule does not
know where these come from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.metrics import TIME_PER_OUTPUT_TOKEN, TIME_TO_FIRST_TOKEN
from latspan._model.segments import SegmentName, Source
from latspan._study.diagnose._attribution import Attribution, Share
from latspan._study.diagnose._goal import Goal
from latspan._study.diagnose._line import MIN_POINTS, FittedLine, correlation, fitted
from latspan._study.diagnose._table import RequestTable
from latspan._study.diagnose._where import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CALIBRATING: Final = Goal(TIME_TO_FIRST_TOKEN, 50)
"""Goal of the table of a calibration."""

_DIVIDED: Final = (SegmentName.QUEUE.value, SegmentName.PREFILL.value)
"""Segments into which a calibration divides a wait."""

_FOLLOWS: Final = 0.5
_RISEN: Final = 1.4
_ARRIVALS: Final = (3, 5, 10, 20)
"""Mean numbers of arrivals per window, when arrivals are counted in windows of equal length."""

_NEARLY_ALL: Final = 0.9
_MOSTLY: Final = 0.5

_DECIDES: Final = 0.5
"""Rank correlation of a wait with a number of tokens from which these may explain it."""

_EXPLAINED: Final = 0.5
"""Fraction of the excess that a number of tokens must explain."""

_PER_TOKENS: Final = 100

_SHORT: Final = 0.25
"""Fraction of the time of slow requests below which a time is short."""

_PARTS: Final = 4
"""Parts of a recording in which two columns are compared, as both may change through it."""

SIMILAR: Final = 1.3
"""Ratio of two lengths, or of two medians, below which they are alike."""

CLUMPED: Final = 0.5
"""Fraction of the chunks of a stream that arrive together from which it arrives in clumps."""

_SIZES: Final = ("input_tokens", "output_tokens")
"""Numbers on which the time of a request depends, whatever the system does."""

VARIED: Final = 1.0
"""Number of requests by which a high load exceeds a low one."""

_VARIED_BY: Final = 1.5
"""Ratio by which it does."""

_ALONE: Final = 0.1
"""Mean number of other units in flight below which a unit was alone."""

_OTHER_CLIENTS: Final = 1.0
"""If the server's metrics show at least this many more running requests than the recording has in
flight (median of the difference), other clients use the server."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """
    Time that a server needs for prompts without other load, from a measurement at concurrency 1.

    Args:
        intercept_ns: Time to the first token of an empty prompt, in nanoseconds.
        per_token_ns: Additional time per uncached prompt token, in nanoseconds.
        tpot_ns: Median time per output token, in nanoseconds; NaN if unknown.
    """

    intercept_ns: float
    per_token_ns: float
    tpot_ns: float = nan

    def is_slower(self, line: FittedLine) -> bool:
        """Return whether the time per prompt token has risen clearly since the calibration."""
        return line.correlation >= _FOLLOWS and line.slope >= _RISEN * self.per_token_ns


def calibrate(table: RequestTable) -> Calibration | None:
    """
    Return the calibration from a table of the goal :data:`CALIBRATING`.

    In a measurement at concurrency 1, the time to the first token contains no time in the server's
    queue, because no other request was in flight.

    Returns:
        ``None`` if fewer than ten units have a time and a number of tokens.
    """
    tokens = _uncached(table)
    line = fitted(tokens, table.number(TIME_TO_FIRST_TOKEN))
    if line is None:
        return None
    tpot = table.number(TIME_PER_OUTPUT_TOKEN)
    return Calibration(
        max(0.0, line.intercept),
        max(0.0, line.slope),
        float(np.nanmedian(tpot)) if np.isfinite(tpot).any() else nan,
    )


def split_by(table: RequestTable, calibration: Calibration) -> RequestTable:
    """
    Return the table with the waits for the server divided into queue and prefill, as estimates.

    Prefill is what the calibrated server needs for the prompt alone, and the rest is queue. If the
    waits depend on the length of the prompts, and the time per token has clearly risen since the
    calibration, the current time per token is used. The round trip to the server is part of the
    calibrated time.

    Source: ``queue = max(0, wait - (f0 + f1 * uncached prompt tokens))``. The calibration, without
        load, gives f0 and f1; only if the time per token has risen, f1 comes from the waits of this
        recording. Near saturation, a line that is fitted to waits under load would include the
        queueing time, so the estimated queue would be too short.
    """
    wait = table.segment(SegmentName.SERVER_WAIT)
    tokens = _uncached(table)
    # A server that reports its queue leaves nothing to divide: the wait is in front of it.
    known = ~np.isnan(tokens) & (wait > 0) & ~(table.number("queue_reported") == 1)
    if not known.any():
        return table
    line = fitted(tokens[known], wait[known])
    per_token_ns = calibration.per_token_ns
    if line is not None and calibration.is_slower(line):
        per_token_ns = line.slope
    expected = calibration.intercept_ns + per_token_ns * np.nan_to_num(tokens)
    prefill = np.where(known, np.minimum(wait, expected), 0.0)
    parts = {
        SegmentName.QUEUE.value: np.where(known, wait - prefill, 0.0),
        SegmentName.PREFILL.value: prefill,
        SegmentName.SERVER_WAIT.value: np.where(known, 0.0, wait),
    }
    names = (*table.names, *(name for name in parts if name not in table.names))
    segments = np.zeros((len(table), len(names)))
    segments[:, : len(table.names)] = table.segments_ns
    uncertain = np.ones(len(names))
    uncertain[: len(table.names)] = table.uncertain
    for name, part in parts.items():
        index = names.index(name)
        before = 0.0 if name == SegmentName.SERVER_WAIT else segments[:, index]
        segments[:, index] = before + part
        if part.any():
            uncertain[index] = 1.0
    estimated = {name: Source.ESTIMATED for name in _DIVIDED if parts[name].any()}
    return replace(
        table,
        names=names,
        segments_ns=segments,
        uncertain=uncertain,
        sources={**table.sources, **estimated},
    )


class Facts:
    """
    Facts on the units of a recording, computed on first use.

    Args:
        table: The units.
        attribution: Shares of the segments.
        calibration: Calibration of the server, if there is one.
        stable_tokens: Tokens at the start of each prompt that are the same in all, if known.
        place: Step in which the leading segment is; ``None`` if no unit has several calls.
    """

    def __init__(
        self,
        table: RequestTable,
        attribution: Attribution,
        calibration: Calibration | None = None,
        stable_tokens: float | None = None,
        place: Place | None = None,
    ) -> None:
        self.table = table
        self.place = place
        self.attribution = attribution
        self.calibration = calibration
        self.stable_tokens = stable_tokens

    @property
    def leader(self) -> Share:
        """The segment that explains the percentile."""
        return self.attribution.leader

    def tail(self, values: NDArray[np.float64]) -> float:
        """Return the median of a column in the tail band; NaN if it has no value there."""
        return _median(values[self.attribution.tail])

    def typical(self, values: NDArray[np.float64]) -> float:
        """Return the median of a column in the typical band; NaN if it has no value there."""
        return _median(values[self.attribution.typical])

    def means(self, values: NDArray[np.float64]) -> tuple[float, float]:
        """
        Return the mean of a column in the tail band and in the typical band, for the evidence.

        The times of the bands are means too. A mean is used and not a median, because a few very
        long prompts among short ones would hardly change a median. A mean is NaN if the band has no
        value.
        """
        bands = (values[self.attribution.tail], values[self.attribution.typical])
        known = [band[np.isfinite(band)] for band in bands]
        slow, typical = (float(band.mean()) if len(band) else nan for band in known)
        return slow, typical

    @cached_property
    def burstiness(self) -> float:
        """
        Variance of the number of arrivals, divided by the variance for independent arrivals.

        It is 1 for independent arrivals, and about n if n requests always arrive together. It is
        the largest value of several lengths of windows, because bursts may be short or long. NaN if
        there are too few requests.

        Source: the index of dispersion for counts; Gusella (1991), characterizing the variability
        of arrival processes with indexes of dispersion.
        """
        start = self.table.start_ns
        indexes = [
            float(counts.var() / counts.mean())
            for arrivals in _ARRIVALS
            if (windows := len(start) // arrivals) >= MIN_POINTS
            for counts, _ in (np.histogram(start, bins=windows),)
        ]
        return max(indexes, default=nan)

    def trend(self, values: NDArray[np.float64]) -> float:
        """Return the rank correlation of a column with the order of the starts, in [-1, 1]."""
        known = np.isfinite(values)
        return correlation(np.flatnonzero(known).astype(np.float64), values[known])

    def follows_throughout(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        """
        Return the mean rank correlation of two columns within each quarter of the recording.

        Both change if a system becomes slower: requests take longer, and more of them overlap.
        """
        found = [
            correlation(x[rows], y[rows])
            for part in np.array_split(np.arange(len(self.table)), _PARTS)
            if (rows := part[np.isfinite(x[part]) & np.isfinite(y[part])]).size >= MIN_POINTS
        ]
        return float(np.mean(found)) if found else 0.0

    @cached_property
    def met(self) -> NDArray[np.float64]:
        """
        Number of other units in flight when each unit started.

        Those that started later do not count: whatever delays all units of a while also lets them
        pile up, without being their cause.
        """
        return _met(self.table, np.ones(len(self.table), dtype=bool))

    @cached_property
    def met_at_server(self) -> NDArray[np.float64]:
        """Number of other units in flight at the same server when each unit started."""
        return self._of_each(semconv.SERVER_ADDRESS, _met)

    def follows_load(self, values: NDArray[np.float64]) -> float:
        """Return the rank correlation of a column with the requests met, in [-1, 1]."""
        known = np.isfinite(values)
        return correlation(self.met[known], values[known])

    def least_loaded(self, values: NDArray[np.float64]) -> float:
        """Return the median of the tenth of units that met the fewest others; NaN if too few."""
        known = np.flatnonzero(np.isfinite(values))
        least = known[np.argsort(self.met[known], kind="stable")]
        least = least[: max(MIN_POINTS, len(known) // 10)]
        return float(np.median(values[least])) if len(least) >= MIN_POINTS else nan

    def quick_alone(self, values: NDArray[np.float64], long: float) -> bool:
        """
        Return whether a time is short without other requests.

        Args:
            values: The time of each unit.
            long: Time that counts as long, in nanoseconds.
        """
        if self.calibration is not None and self.calibration.intercept_ns <= _SHORT * long:
            return True
        return self.least_loaded(values) <= _SHORT * long

    def explained_by(self, time: NDArray[np.float64], tokens: NDArray[np.float64]) -> str | None:
        """
        Return the evidence that tokens explain most of the excess of the leading segment.

        Args:
            time: The time of the segment of each unit.
            tokens: A number of tokens of each unit.

        Returns:
            ``None`` if they do not.
        """
        line = self.line(tokens, time)
        slow, typical = self.means(tokens)
        if line is None or line.correlation < _DECIDES or np.isnan(slow + typical):
            return None
        if not 0 < _EXPLAINED * self.leader.excess_ns <= line.slope * (slow - typical):
            return None
        return (
            f"it grows by {line.slope * _PER_TOKENS / NS_PER_MS:.1f} ms per {_PER_TOKENS} of these"
            f" tokens (rank correlation {line.correlation:.1f})"
        )

    @cached_property
    def reports_queue(self) -> bool:
        """Whether the server reports its queue, so that an unexplained wait is in front of it."""
        return float((self.table.number("queue_reported") == 1).mean()) >= _NEARLY_ALL

    @cached_property
    def has_calls(self) -> bool:
        """Whether slow requests make calls, so that the application prepares and processes them."""
        return float((self.table.chains[self.attribution.tail] > 0).mean()) >= _MOSTLY

    @cached_property
    def is_queue_calibrated(self) -> bool:
        """Whether a calibration estimates the queue, as no server or gateway reports times."""
        return self.calibration is not None and self.table.reported < _MOSTLY

    def is_spread(self, share: Share) -> bool:
        """Return whether a segment is long in typical units too, and not in the tail alone."""
        return share.typical_ns >= 0.5 * share.mean_ns

    def is_slower_than_calibrated(self, line: FittedLine) -> bool:
        """Return whether a time per prompt token is clearly longer than the calibrated one."""
        return self.calibration is not None and self.calibration.is_slower(line)

    def line(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> FittedLine | None:
        """Return the line through all units that have both values; ``None`` if they are few."""
        return fitted(x, y)

    @cached_property
    def uncached_tokens(self) -> NDArray[np.float64]:
        """Prompt tokens that were not read from a cache."""
        return _uncached(self.table)

    @cached_property
    def prompt_tokens(self) -> NDArray[np.float64]:
        """Prompt tokens, those that were read from a cache included."""
        return _prompt(self.table)

    @cached_property
    def cached_share(self) -> float:
        """Fraction of all prompt tokens that were read from a cache; NaN if it is not known."""
        cached, prompt = _cached(self.table), self.prompt_tokens
        known = ~np.isnan(cached) & ~np.isnan(prompt)
        total = prompt[known].sum()
        return float(cached[known].sum() / total) if total else nan

    @cached_property
    def in_flight(self) -> NDArray[np.float64]:
        """Mean number of other units in flight during each unit."""
        return _in_flight(self.table, np.ones(len(self.table), dtype=bool))

    @cached_property
    def in_flight_at_server(self) -> NDArray[np.float64]:
        """Mean number of other units in flight at the same server during each unit."""
        return self.in_flight_of(semconv.SERVER_ADDRESS)

    @cached_property
    def tokens_at_server(self) -> NDArray[np.float64]:
        """Mean number of prompt tokens of other units at the same server, NaN if not known."""
        return self._of_each(semconv.SERVER_ADDRESS, _tokens_in_flight)

    def in_flight_of(self, attribute: str) -> NDArray[np.float64]:
        """Return the mean number of other units in flight with the same value of an attribute."""
        return self._of_each(attribute, _in_flight)

    def _of_each(
        self,
        attribute: str,
        column_of: Callable[[RequestTable, NDArray[np.bool_]], NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        """Return a column that is computed from the units of each value of an attribute alone."""
        result = np.zeros(len(self.table))
        for members in self._each(attribute):
            result[members] = column_of(self.table, members)
        return result

    @cached_property
    def load_at_server(self) -> NDArray[np.float64]:
        """
        Number of other requests at the server during each unit.

        Requests of other clients are not in the recording. If the server's metrics show clearly
        more running requests than the recording has in flight, the metrics are used.
        """
        own = self.in_flight_at_server
        running = self.table.number("requests_running") - 1
        known = ~np.isnan(running)
        if known.mean() < 0.5 or float(np.median((running - own)[known])) < _OTHER_CLIENTS:
            return own
        return np.where(known, running, own)

    @cached_property
    def alone(self) -> NDArray[np.bool_]:
        """Units during which no other request is known to have been at the server."""
        running, waiting = (
            self.table.number(name) for name in ("requests_running", "requests_waiting")
        )
        busy = (np.nan_to_num(running) > 1) | (np.nan_to_num(waiting) > 0)
        return (self.in_flight_at_server < _ALONE) & ~busy

    def sampled(self, name: str) -> tuple[float, float] | None:
        """
        Return the median of one sampled server metric in the tail band, and in the typical band.

        Args:
            name: Name of the fact.

        Returns:
            ``None`` if fewer than half of the slow units have a sample.
        """
        values = self.table.number(name)
        if np.isfinite(values[self.attribution.tail]).mean() < 0.5:
            return None
        return self.tail(values), self.typical(values)

    @cached_property
    def servers(self) -> list[NDArray[np.bool_]]:
        """Units of each server, by its address; one item with all units if there is only one."""
        return self._each(semconv.SERVER_ADDRESS)

    def _each(self, attribute: str) -> list[NDArray[np.bool_]]:
        if attribute not in self.table.groups:
            return [np.ones(len(self.table), dtype=bool)]
        codes, _ = self.table.groups[attribute]
        return [codes == code for code in np.unique(codes)]

    @cached_property
    def knows_sizes(self) -> bool:
        """Whether the lengths of all prompts and answers are known."""
        return all(bool(np.isfinite(self.table.number(name)).all()) for name in _SIZES)

    def are_larger(self, inside: NDArray[np.bool_]) -> bool:
        """Return whether some units have longer prompts or answers than the others."""
        return any(self.has_more(self.table.number(name), inside) for name in _SIZES)

    def has_more(self, values: NDArray[np.float64], inside: NDArray[np.bool_]) -> bool:
        """Return whether the median of a column is clearly larger in some units than in others."""
        own = values[inside & ~np.isnan(values)]
        others = values[~inside & ~np.isnan(values)]
        return bool(len(own) and len(others) and np.median(own) > SIMILAR * np.median(others))


def varies(load: NDArray[np.float64]) -> bool:
    """Return whether units met a high load and a low one, so that the recording tested the load."""
    low, high = (float(each) for each in np.quantile(load, (0.1, 0.9)))
    return high >= max(low + VARIED, _VARIED_BY * low)


def _met(table: RequestTable, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    start = table.start_ns[chosen].astype(np.float64)
    ends = np.sort(start + table.duration_ns[chosen])
    return np.arange(len(start)) - np.searchsorted(ends, start, "right").astype(np.float64)


def _in_flight(table: RequestTable, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    return _mean_during(table, chosen, np.ones(int(chosen.sum())))


def _tokens_in_flight(table: RequestTable, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    return _mean_during(table, chosen, _prompt(table)[chosen])


def _mean_during(
    table: RequestTable, chosen: NDArray[np.bool_], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean sum of the weights of the other units in flight during each unit."""
    start = table.start_ns[chosen].astype(np.float64)
    end = start + np.maximum(table.duration_ns[chosen], 1.0)
    times = np.concatenate([start, end])
    steps = np.concatenate([weights, -weights])
    order = np.argsort(times, kind="stable")
    times, running = times[order], np.cumsum(steps[order])
    area = np.concatenate([[0.0], np.cumsum(running[:-1] * np.diff(times))])
    total = np.interp(end, times, area) - np.interp(start, times, area)
    return total / (end - start) - weights


def _uncached(table: RequestTable) -> NDArray[np.float64]:
    return _prompt(table) - np.nan_to_num(_cached(table), nan=0.0)


def _prompt(table: RequestTable) -> NDArray[np.float64]:
    """
    Return the prompt tokens of each unit, cached ones included.

    Some providers count cached tokens apart, which shows if there are more of them than input.
    """
    tokens, cached = table.number("input_tokens"), np.nan_to_num(table.number("cached_tokens"))
    return tokens + cached if (cached > tokens).any() else tokens


def _cached(table: RequestTable) -> NDArray[np.float64]:
    """Return the cached prompt tokens, from the response or from the server's metrics."""
    cached = table.number("cached_tokens")
    sampled = table.number("cache_hit_ratio") * _prompt(table)
    return np.where(np.isnan(cached), sampled, cached)


def _median(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else nan
