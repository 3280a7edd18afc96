"""
Attribution: the share of each segment in the time of the units near a percentile.

Each share has a confidence interval. A unit is a request, or a call if the recording has none.

A share is the fraction of the mean time in the tail band (:mod:`._bands`). The difference between
the means of the tail band and of the typical band is the *excess*.

Segments are ranked in two ways. If slow units take much longer than typical ones, the segment with
the largest excess makes them slow: one that is as long in typical units does not. If all units are
about as slow, the segment with the largest share leads. :mod:`._leading` chooses between the two.

The variation of the shares comes from a bootstrap of blocks of consecutive units; each draw has its
own band.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from latspan._model.segments import Source
from latspan._study.diagnose._bands import bands_of
from latspan._study.diagnose._table import RequestTable
from latspan._study.stats import BLOCK, weighted_quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SLOWER: Final = 1.5
"""Ratio of the tail band to the typical band from which slow units differ from typical ones."""

_DRAWS: Final = 400
_NORMAL: Final = 1.645
_QUANTILE: Final = 2.1
"""
Half of an interval's width in standard deviations, instead of the 1.645 of a normal distribution.
Bands have few units and there are few blocks, so the spread itself is uncertain. With this value,
90 % of the intervals contain the truth in simulations: see docs/benchmarks.md.
"""

_FEW_INDEPENDENT: Final = 30
"""Number of independent values below which the bootstrap underestimates the variation."""
_MIN_RIVAL: Final = 0.1
"""Minimum share of a segment for which the number of independent values is computed."""

_LARGE: Final = 200_000
_DRAWS_OF_LARGE: Final = 100
_CONFIDENCE: Final = 0.90
_SEED: Final = 20_240


@dataclass(frozen=True, slots=True)
class Share:
    """
    Share of one segment in the time of the tail band.

    Args:
        name: Name of the segment.
        share: Fraction in [0, 1].
        low: Lower end of its 90 % interval.
        high: Upper end of its 90 % interval.
        mean_ns: Mean time per unit of the tail band, in nanoseconds.
        typical_ns: Mean time per unit of the typical band, in nanoseconds.
        uncertain: Fraction of the segment's time that is estimated or unknown.
        source: Source of most of the segment's time.
        independent: Effective number of independent values; infinite if the share is small or the
            number is large.
        grown: Fraction of the excess of all segments; negative if typical units have more of it.
        grown_low: Lower end of its 90 % interval.
        grown_high: Upper end of its 90 % interval.
    """

    name: str
    share: float
    low: float
    high: float
    mean_ns: float
    typical_ns: float
    uncertain: float = 0.0
    source: Source = Source.MEASURED
    independent: float = math.inf
    grown: float = 0.0
    grown_low: float = 0.0
    grown_high: float = 0.0

    @property
    def factor(self) -> float:
        """
        Factor by which the segment's mean time may be larger or smaller in a much longer recording.

        The mean time divided by this factor and multiplied by it gives a 90 % confidence interval
        of the mean time. `low` and `high` do not depend on the factor.

        The standard deviation of waiting times is approximately equal to their mean, so the
        relative standard error of the mean of n independent waiting times is 1 / sqrt(n).
        """
        return math.exp(_NORMAL / math.sqrt(self.independent))

    @property
    def excess_ns(self) -> float:
        """Time of the tail band beyond that of typical units, in nanoseconds."""
        return self.mean_ns - self.typical_ns


class Ranking(NamedTuple):
    """
    Segments in the order of one measure.

    Args:
        leader: The segment with the largest value.
        runner_up: The next one; ``None`` if no other has any of it.
        lead: Lower end of the one-sided 90 % confidence interval of the difference between the
            leader and the largest of the others. If this value is more than 0, the leader is
            significantly larger than the others.
    """

    leader: Share
    runner_up: Share | None
    lead: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """
    Shares of all segments at a percentile.

    Args:
        shares: Shares, largest first.
        tail: Indices of the units in the tail band.
        typical: Indices of the units in the typical band.
        tail_ns: Mean of the goal metric in the tail band, in nanoseconds.
        typical_ns: Mean of the goal metric in the typical band, in nanoseconds.
        differs: Whether slow units take at least 1.5 times as long as typical ones.
        of_time: Ranking of the segments by their share of the time.
        of_excess: Ranking of the segments by their share of the excess.
        by_excess: Whether the ranking by excess explains the percentile.
        value_ns: The percentile itself, in nanoseconds; infinity if so many units failed that the
            percentile falls on a failed one.
        is_extended: Whether the tail band contains a larger fraction of the units than the goal's
            percentile requires, because there are few units. Some units of the band are then not
            slow.
    """

    shares: tuple[Share, ...]
    tail: NDArray[np.int64]
    typical: NDArray[np.int64]
    tail_ns: float
    typical_ns: float
    differs: bool
    of_time: Ranking
    of_excess: Ranking
    by_excess: bool
    value_ns: float
    is_extended: bool = False

    @property
    def excess_ns(self) -> float:
        """Time of all segments of the tail band beyond that of typical units, in nanoseconds."""
        return sum(share.excess_ns for share in self.shares)

    @property
    def leader(self) -> Share:
        """The segment that explains the percentile."""
        return self._ranking.leader

    @property
    def runner_up(self) -> Share | None:
        """The next one by the same measure; ``None`` if no other segment explains any of it."""
        return self._ranking.runner_up

    @property
    def lead(self) -> float:
        """
        Lower end of the interval of the difference between the leader and the largest other one.

        If one segment leads both rankings, it is the larger of the two.
        """
        if self.of_time.leader is self.of_excess.leader:
            return max(self.of_time.lead, self.of_excess.lead)
        return self._ranking.lead

    @property
    def _ranking(self) -> Ranking:
        return self.of_excess if self.by_excess else self.of_time

    @property
    def rival(self) -> Share | None:
        """Segment that may be the largest one in a longer recording; ``None`` if there is none."""
        others = (share for share in self.shares if share is not self.leader)
        return next(
            (share for share in others if self.weight(share) and self._may_lead(share)), None
        )

    def _may_lead(self, rival: Share) -> bool:
        """
        Return whether another segment may be the larger one in a longer recording.

        The result is false unless exactly one of the two segments varies slowly. Two segments that
        both vary slowly grow together, for example the queues of an overloaded system.
        """
        leader = self.leader
        if math.isinf(leader.independent) == math.isinf(rival.independent):
            return False
        return self.weight(leader) / leader.factor <= self.weight(rival) * rival.factor

    def weight(self, share: Share) -> float:
        """Return the fraction by which segments are ranked, in [0, 1]."""
        return min(max(share.grown, 0.0), 1.0) if self.by_excess else share.share

    def interval(self, share: Share) -> tuple[float, float]:
        """Return the 90 % interval of the fraction by which segments are ranked."""
        if self.by_excess:
            return share.grown_low, share.grown_high
        return share.low, share.high

    def named(self, name: str) -> Share | None:
        """Return the share of one segment; ``None`` if slow units spend no time in it."""
        return next((share for share in self.shares if share.name == name), None)

    def share(self, *names: str) -> float:
        """Return the summed share of some segments."""
        return sum(share.share for share in self.shares if share.name in names)


def attribute(table: RequestTable) -> Attribution | None:
    """
    Return the shares of the segments at the goal's percentile.

    Failed units have no goal metric. They rank above all others when the percentile is determined,
    and are not part of a band.

    Args:
        table: Units, in the order of their starts.

    Returns:
        The attribution; ``None`` if fewer than 20 units have a value of the goal metric.
    """
    bands = bands_of(table)
    if bands is None:
        return None
    values, weights = bands.values_ns, bands.weights
    means, typical = (bands.segment_means_ns(band) for band in (bands.tail, bands.typical))
    if not means.any():
        return None
    number = _DRAWS if len(values) <= _LARGE else _DRAWS_OF_LARGE
    drawn = bands.draws(number, np.random.default_rng(_SEED))
    widening = _widening(values)
    shares, deviations = _with_deviations(means, drawn, widening)
    grown, variations = _with_deviations(means - typical, drawn - typical, widening)
    low, high = _intervals(shares, deviations)
    spread = variations.std(axis=0) * _QUANTILE
    every = [
        Share(
            name=name,
            share=float(shares[index]),
            low=float(low[index]),
            high=float(high[index]),
            mean_ns=float(means[index]),
            typical_ns=float(typical[index]),
            uncertain=float(table.uncertain[index]),
            source=table.sources.get(name, Source.MEASURED),
            independent=(
                _independent(table.segments_ns[bands.usable, index].astype(np.float64))
                if shares[index] >= _MIN_RIVAL
                else math.inf
            ),
            grown=float(grown[index]),
            grown_low=float(grown[index] - spread[index]),
            grown_high=float(grown[index] + spread[index]),
        )
        for index, name in enumerate(table.names)
    ]
    differs = len(bands.typical) > 0 and bool(means.sum() >= _SLOWER * typical.sum())
    return Attribution(
        shares=tuple(
            sorted((each for each in every if each.share > 0), key=lambda each: -each.share)
        ),
        tail=bands.usable[bands.tail],
        typical=bands.usable[bands.typical],
        tail_ns=bands.mean_ns(bands.tail),
        typical_ns=(
            bands.mean_ns(bands.typical)
            if len(bands.typical)
            else weighted_quantile(values, weights, 50)
        ),
        differs=differs,
        of_time=_ranking(every, shares, deviations),
        of_excess=_ranking(every, grown, variations),
        by_excess=differs,
        value_ns=_percentile(table),
        is_extended=bands.fraction > table.goal.tail_fraction,
    )


def _ranking(
    every: list[Share], fractions: NDArray[np.float64], deviations: NDArray[np.float64]
) -> Ranking:
    first, *others = np.argsort(-fractions, kind="stable").tolist()
    if not others:
        return Ranking(every[first], None, 1.0)
    draws = fractions + deviations * _QUANTILE / _NORMAL
    rival = draws[:, others].max(axis=1)
    lead = float(np.quantile(draws[:, first] - rival, 1 - _CONFIDENCE))
    return Ranking(every[first], every[others[0]] if fractions[others[0]] > 0 else None, lead)


def _with_deviations(
    times: NDArray[np.float64], drawn: NDArray[np.float64], widening: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times as fractions of their total, and how the draws deviate from them."""
    fractions = _of_total(times)
    return fractions, (_of_total(drawn) - fractions) * widening


def _percentile(table: RequestTable) -> float:
    """Return the lower end of the goal's percentile over all units, failed ones as infinity."""
    return weighted_quantile(table.low_ns, table.weight, table.goal.percentile)


def _of_total(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return times as fractions of their total; all 0 if it is."""
    totals = times.sum(axis=-1, keepdims=True)
    return times / np.where(totals == 0, 1.0, totals)


def _widening(values: NDArray[np.float64]) -> float:
    """
    Return the factor by which blocks of 25 underestimate the variation.

    A queue near its capacity stays long for hundreds of units, so neighbouring blocks resemble one
    another. The blocks lack the autocorrelation beyond their length.

    Source: Geyer (1992), Practical Markov chain Monte Carlo, initial positive sequence.
    """
    known = _positive_autocorrelation(values)
    inside = np.clip(1 - np.arange(1, len(known) + 1) / BLOCK, 0, None)
    found, whole = 1 + 2 * float((inside * known).sum()), 1 + 2 * float(known.sum())
    return max(1.0, whole / found) ** 0.5 if found > 0 else 1.0


def _independent(values: NDArray[np.float64]) -> float:
    """Return the effective number of independent values; infinite from 30 on."""
    known = _positive_autocorrelation(values)
    number = len(values) / (1 + 2 * float(known.sum()))
    return number if number < _FEW_INDEPENDENT else math.inf


def _positive_autocorrelation(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the autocorrelation of the ranks from lag 1 on, as long as it is positive."""
    # Equal values have equal ranks: most requests have no retry, for example.
    ranks = np.unique(values, return_inverse=True)[1].astype(np.float64)
    lags = _autocorrelation(ranks)
    pairs = lags[1:-1:2] + lags[2::2]
    ended = np.flatnonzero(pairs <= 0)
    return lags[1 : 2 * int(ended[0]) + 1 if len(ended) else len(lags)]


def _intervals(
    shares: NDArray[np.float64], deviations: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """
    Return the ends of the intervals of the shares.

    A share that happens to be small also varies little in the draws, so percentiles of the draws
    miss the truth on one side. For each end of the interval, Wilson's method uses the variation
    that would result if the true share were equal to that end. It is an interval for a ratio of
    successes to trials; the number of trials is chosen so that such a ratio varies as much as the
    shares of the draws.

    Source: Wilson, JASA 22 (1927); effective sample size: Korn and Graubard (1998).
    """
    spread = deviations.std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        trials = np.where(spread > 0, shares * (1 - shares) / spread**2, np.inf)
    each = _QUANTILE**2 / np.maximum(trials, 1.0)
    centre = (shares + each / 2) / (1 + each)
    half = np.sqrt(shares * (1 - shares) * each + each**2 / 4) / (1 + each)
    return np.clip(centre - half, 0, shares), np.clip(centre + half, shares, 1)


def _autocorrelation(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the autocorrelation of a series at all lags up to a quarter of its length."""
    size = len(values)
    # A power of two: other lengths may need several times the memory and the time.
    padded = 1 << (2 * size - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(values - values.mean(), padded)) ** 2
    products = np.fft.irfft(spectrum)[: max(3, size // 4)]
    return products / products[0] if products[0] > 0 else np.zeros(len(products))
