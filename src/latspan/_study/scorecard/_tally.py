"""
Tally: what is counted in one period, and the figures that follow from it.

Three rules decide what a request counts for.

- **Rates** are fractions of all *intended* requests, including those that a load generator had
  scheduled and never sent.
- **Percentiles** and **attainment** use the requests that show how long the system takes. A failed
  request (timeout, error, rejected, truncated) counts as slower than every other one, because its
  user waits forever: a system that times out its slow requests must not look faster. A request that
  its caller ended (closed early, cancelled, abandoned) shows nothing about the end, and is left
  out; its time to the first token counts if there was one.
- **Goodput** is the number of requests that meet all targets per second of recorded time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from latspan._metrics import FIRST_TOKENS
from latspan._segments import Outcome
from latspan._study.stats import TargetVerdict, target_verdict, wilson_interval
from latspan._targets import Target
from latspan._units import to_seconds
from latspan.histogram import Histogram, values_needed
from latspan.histogram._rank import rank_of

__all__ = ["PERCENTILES", "UNBOUNDED", "Figures", "Ratio", "Tally"]

PERCENTILES: Final = (50, 95)
UNBOUNDED: Final = math.inf
"""A percentile that falls on failed requests."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """
    Number of requests of a kind, as a fraction, with its 95 % confidence interval.

    Args:
        count: Number of requests that count.
        of: Number of requests.
        low: Lower end of the interval, in [0, 1]; ``None`` without requests.
        high: Upper end of the interval, in [0, 1]; ``None`` without requests.
    """

    count: int
    of: int
    low: float | None
    high: float | None

    @classmethod
    def between(cls, count: int, of: int) -> Ratio:
        """Return a ratio with its Wilson interval."""
        interval = wilson_interval(count, of)
        return cls(count, of, *((None, None) if interval is None else interval))

    @property
    def value(self) -> float | None:
        """The fraction, in [0, 1]; ``None`` without requests."""
        return self.count / self.of if self.of else None


@dataclass(frozen=True, slots=True)
class Figures:
    """
    Figures of one period.

    Args:
        requests: Number of intended requests.
        unsent: Number of them that were scheduled and never sent.
        outcomes: Number of requests by outcome.
        percentiles: By metric, then percentile: nanoseconds, :data:`UNBOUNDED`, or ``None`` if
            there are too few values.
        counts: By metric: number of values, failed requests included.
        timeouts: Requests that ended with the outcome ``timeout``.
        completed: Requests that ended with the outcome ``completed``.
        attainment: Requests that meet all targets; ``None`` without a target, or if the source has
            no joint values of several targets.
        goodput_per_s: Requests per second that meet all targets; ``None`` if the attainment is, or
            if no time was recorded.
        verdicts: Verdict on each target, in their order; ``None`` if counts are estimates.
        recorded_s: Recorded time in seconds.
    """

    requests: int
    unsent: int
    outcomes: Mapping[Outcome, int]
    percentiles: Mapping[str, Mapping[float, float | None]]
    counts: Mapping[str, int]
    timeouts: Ratio
    completed: Ratio
    attainment: Ratio | None
    goodput_per_s: float | None
    verdicts: tuple[TargetVerdict | None, ...]
    recorded_s: float


@dataclass(slots=True)
class Tally:
    """
    Counts of one period, to which requests are added.

    Args:
        outcomes: Number of requests by outcome.
        unsent: Number of requests that were scheduled and never sent.
        values: By metric, the values of requests that show how long the system takes, in
            nanoseconds.
        without_token: Number of completed streams without a token.
        met: Number of requests that meet all targets.
        judged: Number of requests that meet them or do not; the others have no value for a target.
        has_joint: Whether ``met`` is known: histograms do not show which request a value is of.
        is_estimated: Whether some counts are estimates, by which no target is judged.
        spans: Recorded time, as Unix nanoseconds of starts and ends, which may overlap.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    unsent: int = 0
    values: dict[str, Histogram] = field(default_factory=dict[str, Histogram])
    without_token: int = 0
    met: int = 0
    judged: int = 0
    has_joint: bool = True
    is_estimated: bool = False
    spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def add(
        self,
        outcome: Outcome,
        values_ns: Mapping[str, int],
        targets: Sequence[Target],
        *,
        weight: int = 1,
        without_token: bool = False,
    ) -> None:
        """
        Add a request.

        Args:
            outcome: How it ended.
            values_ns: Its values by metric, in nanoseconds.
            targets: Targets that it should meet.
            weight: Number of requests that it stands for, in a sample.
            without_token: Whether it is a completed stream without a token.
        """
        self.outcomes[outcome] += weight
        if outcome.failed:
            self.judged += weight
            return
        shown = {
            metric: value
            for metric, value in values_ns.items()
            if metric != "duration" or outcome is Outcome.COMPLETED
        }
        for metric, value in shown.items():
            self.values.setdefault(metric, Histogram()).record_many([value] * weight)
        self.without_token += weight * without_token
        known = {**shown, **(dict.fromkeys(FIRST_TOKENS, UNBOUNDED) if without_token else {})}
        if all(each.metric in known for each in targets):
            self.judged += weight
            self.met += weight * all(known[each.metric] <= each.limit_ns for each in targets)

    def add_histogram(self, metric: str, outcome: Outcome, values: Histogram) -> None:
        """
        Add the values of one metric of many requests that ended alike.

        Args:
            metric: The metric; every request has one ``duration``.
            outcome: How they ended.
            values: The values, in nanoseconds.
        """
        self.has_joint = False
        is_duration = metric == "duration"
        if is_duration:
            self.outcomes[outcome] += values.count
        if not outcome.failed and (not is_duration or outcome is Outcome.COMPLETED):
            self.values.setdefault(metric, Histogram()).merge(values)

    def figures(self, metrics: Sequence[str], targets: Sequence[Target]) -> Figures:
        """
        Return the figures that follow from the counts.

        Args:
            metrics: Metrics to return percentiles of.
            targets: Targets to judge.
        """
        requests = self.outcomes.total() + self.unsent
        recorded_s = to_seconds(_union_ns(self.spans))
        met, judged = self._joint(targets)
        attainment = Ratio.between(met, judged) if judged is not None else None
        return Figures(
            requests=requests,
            unsent=self.unsent,
            outcomes=self.outcomes,
            percentiles={metric: self._percentiles(metric) for metric in metrics},
            counts={metric: self._count(metric) for metric in metrics},
            timeouts=Ratio.between(self.outcomes[Outcome.TIMEOUT], requests),
            completed=Ratio.between(self.outcomes[Outcome.COMPLETED], requests),
            attainment=attainment,
            goodput_per_s=met / recorded_s if attainment is not None and recorded_s else None,
            verdicts=tuple(
                None
                if self.is_estimated
                else target_verdict(self._count(each.metric), self._misses(each), each.percentile)
                for each in targets
            ),
            recorded_s=recorded_s,
        )

    def _joint(self, targets: Sequence[Target]) -> tuple[int, int | None]:
        """Return how many requests meet all targets, and of how many this is known."""
        if not targets:
            return 0, None
        if self.has_joint:
            return self.met, self.judged
        if len(targets) > 1:
            return 0, None
        within = self._count(targets[0].metric) - self._misses(targets[0])
        return within, self._count(targets[0].metric)

    @property
    def _failed(self) -> int:
        return sum(number for outcome, number in self.outcomes.items() if outcome.failed)

    def _held(self, metric: str) -> Histogram:
        return self.values.get(metric) or Histogram()

    def _count(self, metric: str) -> int:
        # Failed requests may be of a kind that has no first token at all, and a source may have
        # no duration.
        if metric not in self.values and (metric != "duration" or self.outcomes[Outcome.COMPLETED]):
            return 0
        return self._held(metric).count + self._missing(metric)

    def _missing(self, metric: str) -> int:
        """Return the number of requests whose value is unbounded."""
        return self._failed + self.without_token * (metric in FIRST_TOKENS)

    def _misses(self, target: Target) -> int:
        if not self._count(target.metric):
            return 0
        held = self._held(target.metric)
        above = held.fraction_above(target.limit_ns) if held.count else 0
        return round(above * held.count) + self._missing(target.metric)

    def _percentiles(self, metric: str) -> dict[float, float | None]:
        count = self._count(metric)
        return {each: self._percentile(metric, each, count) for each in PERCENTILES}

    def _percentile(self, metric: str, percentile: float, count: int) -> float | None:
        if count < values_needed(percentile):
            return None
        held = self._held(metric)
        rank = rank_of(percentile, count)
        if rank > held.count:
            return UNBOUNDED
        # Between two ranks, so that rounding cannot lead to the next one.
        return held.value_at_percentile((rank - 0.5) * 100 / held.count)

    def merge(self, other: Tally) -> None:
        """Add the requests of another tally of the same period."""
        self.outcomes += other.outcomes
        self.unsent += other.unsent
        self.without_token += other.without_token
        self.met += other.met
        self.judged += other.judged
        self.has_joint &= other.has_joint
        self.is_estimated |= other.is_estimated
        self.spans += other.spans
        for metric, values in other.values.items():
            self.values.setdefault(metric, Histogram()).merge(values)


def _union_ns(spans: Sequence[tuple[int, int]]) -> int:
    """Return the length of the union of spans: processes that run at once count once."""
    total = 0
    until = 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total
