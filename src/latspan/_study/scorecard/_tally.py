"""
Tally: what is counted in one period, and the figures that follow from it.

Four rules decide what a request counts for.

- **Rates** are fractions of all *intended* requests, including those that a load generator had
  scheduled and never sent. In a sample, each request counts ``1 / ratio`` times, not rounded.
- **Failed** requests (timeout, error, rejected, truncated) count as slower than every other one,
  because their users wait forever: a system that times out its slow requests must not look faster.
- **Given-up** requests (closed early, cancelled, abandoned) took at least as long as their callers
  waited; see :mod:`latspan._model.censoring`. So a percentile, the attainment and the goodput are
  ranges, and a target is met only if it is met with all of them as misses.
- **Goodput** is the number of requests that meet all targets per second of recorded time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from latspan._base.nanoseconds import to_seconds
from latspan._model.censoring import Bounds
from latspan._model.goals import Target
from latspan._model.recording import Population
from latspan._model.segments import FAILURES, Kind, Outcome, Side
from latspan._study.stats import TargetVerdict, target_verdict_of_weights, wilson_interval
from latspan.histogram import Histogram, values_needed
from latspan.histogram._buckets import (
    HIGHEST_NS,
    highest_value_of,
    lowest_value_of,
)

PERCENTILES: Final = (50, 95)
_TOLERANCE: Final = 1e-9
"""Relative tolerance of sums of weights: 0.95 * 20 is 19.000000000000004 in floating point."""


class CountedGroup(NamedTuple):
    """
    Requests that are counted together.

    Args:
        kind: Kind of the requests.
        side: Side of the network on which they were recorded.
        value: Value of the attribute by which requests are grouped; ``None`` if they have none.
    """

    kind: Kind
    side: Side
    value: str | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """
    Number of requests of a kind, as a fraction, with its 95 % confidence interval.

    Args:
        count: Number of requests that count.
        of: Number of requests.
        value: The fraction, in [0, 1]; ``None`` without requests.
        low: Lower end of the interval, in [0, 1]; ``None`` without requests.
        high: Upper end of the interval, in [0, 1]; ``None`` without requests.
        undecided: Number of further requests that may count or not, because they were given up.
        most: The fraction if all of those count; ``None`` without requests.
    """

    count: int
    of: int
    value: float | None
    low: float | None
    high: float | None
    undecided: int = 0
    most: float | None = None

    @classmethod
    def between(cls, count: float, of: float, size: float, undecided: float = 0.0) -> Ratio:
        """
        Return a ratio with its Wilson interval.

        Args:
            count: Sum of the weights of the requests that count.
            of: Sum of the weights of all requests.
            size: Number of requests without weights that would vary as much.
            undecided: Sum of the weights of further requests that may count.
        """
        if not of:
            return cls(0, 0, None, None, None)
        least = min(count / of, 1.0)
        most = min((count + undecided) / of, 1.0)
        lower, upper = (wilson_interval(each * size, size) for each in (least, most))
        assert lower is not None  # noqa: S101 - there are requests
        assert upper is not None  # noqa: S101
        return cls(round(count), round(of), least, lower.low, upper.high, round(undecided), most)


@dataclass(frozen=True, slots=True)
class MetricCounts:
    """
    Number of requests that have a metric.

    Args:
        count: All of them, failed and given-up ones included.
        cut: Those that were given up before their value was known.
        failed: Those that never had a value.
    """

    count: int
    cut: int
    failed: int


@dataclass(frozen=True, slots=True)
class Figures:
    """
    Figures of one period.

    Args:
        requests: Number of intended requests.
        unsent: Number of them that were scheduled and never sent.
        outcomes: Number of requests by outcome.
        percentiles: By metric, then percentile: an interval in nanoseconds, or ``None`` if there
            are too few values.
        counts: By metric: number of values, and of those that are not known.
        timeouts: Requests that ended with the outcome ``timeout``.
        completed: Requests that ended with the outcome ``completed``.
        attainment: Requests that meet all targets; ``None`` without a target, or if the source has
            no joint values of several targets.
        goodput_per_s: Requests per second that are known to meet all targets; ``None`` if the
            attainment is, or if no time was recorded.
        most_goodput_per_s: The same if all requests that were given up before a limit meet it.
        verdicts: Verdict on each target, in their order; ``None`` if counts are estimates.
        recorded_s: Recorded time in seconds.
    """

    requests: int
    unsent: int
    outcomes: Mapping[Outcome, int]
    percentiles: Mapping[str, Mapping[float, Bounds | None]]
    counts: Mapping[str, MetricCounts]
    timeouts: Ratio
    completed: Ratio
    attainment: Ratio | None
    goodput_per_s: float | None
    most_goodput_per_s: float | None
    verdicts: tuple[TargetVerdict | None, ...]
    recorded_s: float


@dataclass(slots=True)
class Buckets:
    """
    Values as weights by bucket of :class:`~latspan.histogram.Histogram`.

    Args:
        weights: Weight by the index of the bucket.
        least_ns: Smallest value.
        most_ns: Largest value.
    """

    weights: dict[int, float] = field(default_factory=dict[int, float])
    least_ns: int = HIGHEST_NS
    most_ns: int = 0

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return math.fsum(self.weights.values())

    def add(self, weights: Iterable[tuple[int, float]], least_ns: int, most_ns: int) -> None:
        """Add values that lie between two limits."""
        for index, weight in weights:
            self.weights[index] = self.weights.get(index, 0.0) + weight
        self.least_ns, self.most_ns = min(self.least_ns, least_ns), max(self.most_ns, most_ns)

    def add_histogram(self, histogram: Histogram) -> None:
        """Add the values of a histogram, which weigh 1 each."""
        if histogram.count:
            self.add(histogram, histogram.min_ns, histogram.max_ns)

    def merge(self, other: Buckets) -> None:
        """Add the values of another one."""
        self.add(other.weights.items(), other.least_ns, other.most_ns)

    def quantile(self, wanted: float) -> int | None:
        """Return the index of the bucket up to which the weights reach a sum, if they do."""
        reached = 0.0
        for index in sorted(self.weights):
            reached += self.weights[index]
            if reached >= wanted:
                return index
        return None


class Misses(NamedTuple):
    """
    Requests that miss a limit, as sums of weights.

    Args:
        surely: Those above the limit, and those that failed.
        perhaps: Those, and the ones that were given up before the limit.
    """

    surely: float = 0.0
    perhaps: float = 0.0

    def __add__(self, other: object) -> Misses:
        """Return both sums added up."""
        if not isinstance(other, Misses):
            return NotImplemented
        return Misses(self.surely + other.surely, self.perhaps + other.perhaps)


@dataclass(slots=True)
class MetricTally:
    """
    What is known of one metric.

    Args:
        exact: Values that are known.
        bounds: Lower bounds of the values that are not.
        never: Weight of the requests that never have a value.
        failed_bounds: Weight of the failed requests among the bounds.
        squares: Sum of the squares of all weights.
        heaviest: Largest weight.
        applies: Whether a request is known to have the metric, even if none has a value.
        misses: Requests that miss, by limit in nanoseconds.
    """

    exact: Buckets = field(default_factory=Buckets)
    bounds: Buckets = field(default_factory=Buckets)
    never: float = 0.0
    failed_bounds: float = 0.0
    squares: float = 0.0
    heaviest: float = 1.0
    applies: bool = False
    misses: dict[int, Misses] = field(default_factory=dict[int, Misses])

    @property
    def is_defined(self) -> bool:
        """Whether a request is known to have the metric, even if its value is not known."""
        return bool(self.exact.weights) or self.bounds.most_ns > 0 or self.applies

    @property
    def total(self) -> float:
        """Weight of all requests that have the metric; 0 if none is known to have it."""
        if not self.is_defined:
            return 0.0
        return self.exact.total + self.bounds.total + self.never

    @property
    def cut(self) -> float:
        """Weight of the requests that were given up before their value was known."""
        return self.bounds.total - self.failed_bounds if self.is_defined else 0.0

    @property
    def failed(self) -> float:
        """Weight of the requests that never have a value."""
        return self.never + self.failed_bounds if self.is_defined else 0.0

    def merge(self, other: MetricTally) -> None:
        """Add the requests of another one."""
        self.exact.merge(other.exact)
        self.bounds.merge(other.bounds)
        self.never += other.never
        self.failed_bounds += other.failed_bounds
        self.squares += other.squares
        self.heaviest = max(self.heaviest, other.heaviest)
        self.applies |= other.applies
        for limit_ns, misses in other.misses.items():
            self.misses[limit_ns] = self.misses.get(limit_ns, Misses()) + misses

    def add_population(self, population: Population, limits_ns: Iterable[int]) -> None:
        """Add what histograms show; each of their values weighs 1."""
        self.exact.add_histogram(population.exact)
        self.bounds.add_histogram(population.bounds)
        self.never += population.never
        self.failed_bounds += population.failed_bounds
        self.squares += population.count
        for limit_ns in limits_ns:
            above = population.fraction_above(limit_ns)
            # Each value weighs 1, so the numbers are whole.
            misses = Misses(*(round(each * population.count) for each in above))
            self.misses[limit_ns] = self.misses.get(limit_ns, Misses()) + misses

    def percentile(self, percentile: float) -> Bounds | None:
        """Return the interval of a percentile in nanoseconds; ``None`` if there are too few."""
        total = self.total
        if not total or total**2 / self.squares < values_needed(percentile) * (1 - _TOLERANCE):
            return None
        wanted = percentile / 100 * total - _TOLERANCE * max(1.0, total)
        at = self.exact.quantile(wanted)
        high = math.inf if at is None else min(highest_value_of(at), self.exact.most_ns)
        if not self.bounds.weights:
            return Bounds(high, high)
        merged = Buckets()
        merged.merge(self.exact)
        merged.merge(self.bounds)
        least = merged.quantile(wanted)
        if least is None:
            return Bounds(math.inf, math.inf)
        if least == at:
            return Bounds(high, high)
        return Bounds(max(lowest_value_of(least), merged.least_ns), high)

    def verdict(self, target: Target) -> TargetVerdict:
        """Return what the requests prove about a target."""
        surely, perhaps = self.misses.get(target.limit_ns, _NO_MISSES)
        if not self.is_defined:
            surely = perhaps = 0.0
        return target_verdict_of_weights(
            self.total, surely, perhaps, target.percentile, heaviest=self.heaviest
        )


_NO_MISSES: Final = Misses()


@dataclass(slots=True)
class Tally:
    """
    Counts of one period, to which requests are added. Counts are sums of weights.

    Args:
        outcomes: Requests by outcome.
        squares: Sum of the squares of their weights.
        unsent: Number of requests that were scheduled and never sent.
        metrics: What is known of each metric.
        met: Requests that meet all targets.
        missed: Requests that miss one.
        judged: Requests that have a metric of every target.
        judged_squares: Sum of the squares of their weights.
        has_joint: Whether ``met`` and ``missed`` are known: histograms do not show which values
            belong to one request.
        is_estimated: Whether some counts are estimates, by which no target is judged.
        spans: Recorded time, as Unix nanoseconds of starts and ends, which may overlap.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    squares: float = 0.0
    unsent: int = 0
    metrics: dict[str, MetricTally] = field(default_factory=dict[str, MetricTally])
    met: float = 0.0
    missed: float = 0.0
    judged: float = 0.0
    judged_squares: float = 0.0
    has_joint: bool = True
    is_estimated: bool = False
    spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def metric(self, name: str) -> MetricTally:
        """Return what is known of a metric, to add to it."""
        return self.metrics.setdefault(name, MetricTally())

    def count(self, outcome: Outcome, number: float, squares: float) -> None:
        """Count requests of an outcome: the sum of their weights, and that of the squares."""
        # The values of a counter are integers for a type checker only.
        self.outcomes[outcome] += number  # pyright: ignore[reportArgumentType]
        self.squares += squares

    def add_population(
        self,
        metric: str,
        population: Population,
        targets: Sequence[Target],
        *,
        applies: bool = False,
    ) -> None:
        """
        Add what histograms show of one metric.

        Args:
            metric: The metric.
            population: What is known of its values.
            targets: All targets of the requests.
            applies: Whether a request is known to have the metric.
        """
        self.has_joint &= len(targets) <= 1
        limits_ns = {each.limit_ns for each in targets if each.metric == metric}
        known = MetricTally(applies=applies)
        known.add_population(population, limits_ns)
        self.metric(metric).merge(known)
        if limits_ns and len(targets) == 1 and known.is_defined:
            surely, perhaps = known.misses[targets[0].limit_ns]
            self.met += known.total - perhaps
            self.missed += surely
            self.judged += known.total
            self.judged_squares += known.squares

    def figures(self, metrics: Sequence[str], targets: Sequence[Target]) -> Figures:
        """
        Return the figures that follow from the counts.

        Args:
            metrics: Metrics to return percentiles of.
            targets: Targets to judge.
        """
        every = math.fsum(self.outcomes.values()) + self.unsent
        squares = self.squares + self.unsent
        size = every**2 / squares if squares else 0.0
        recorded_s = to_seconds(_union_ns(self.spans))
        held = {metric: self.metrics.get(metric, MetricTally()) for metric in metrics}
        attainment = None
        if targets and self.has_joint:
            effective = self.judged**2 / self.judged_squares if self.judged_squares else 0.0
            undecided = max(0.0, self.judged - self.met - self.missed)
            attainment = Ratio.between(self.met, self.judged, effective, undecided)
        is_rate = attainment is not None and recorded_s > 0
        return Figures(
            requests=round(every),
            unsent=self.unsent,
            outcomes=Counter({each: round(number) for each, number in self.outcomes.items()}),
            percentiles={
                name: {each: metric.percentile(each) for each in PERCENTILES}
                for name, metric in held.items()
            },
            counts={
                name: MetricCounts(round(metric.total), round(metric.cut), round(metric.failed))
                for name, metric in held.items()
            },
            timeouts=Ratio.between(self.outcomes[Outcome.TIMEOUT], every, size),
            completed=Ratio.between(self.outcomes[Outcome.COMPLETED], every, size),
            attainment=attainment,
            goodput_per_s=self.met / recorded_s if is_rate else None,
            most_goodput_per_s=(self.judged - self.missed) / recorded_s if is_rate else None,
            verdicts=tuple(
                None
                if self.is_estimated
                else self.metrics.get(each.metric, MetricTally()).verdict(each)
                for each in targets
            ),
            recorded_s=recorded_s,
        )

    @property
    def failures(self) -> float:
        """Requests that failed."""
        return math.fsum(number for each, number in self.outcomes.items() if each in FAILURES)

    def merge(self, other: Tally) -> None:
        """Add the requests of another tally of the same period."""
        for outcome, number in other.outcomes.items():
            self.count(outcome, number, 0.0)
        self.squares += other.squares
        self.unsent += other.unsent
        self.met += other.met
        self.missed += other.missed
        self.judged += other.judged
        self.judged_squares += other.judged_squares
        self.has_joint &= other.has_joint
        self.is_estimated |= other.is_estimated
        self.spans += other.spans
        for name, metric in other.metrics.items():
            self.metric(name).merge(metric)


def _union_ns(spans: Sequence[tuple[int, int]]) -> int:
    """Return the length of the union of spans: processes that run at once count once."""
    total = 0
    until = 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total
