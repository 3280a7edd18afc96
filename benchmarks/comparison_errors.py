"""
Errors of ``latspan compare``: changes that it claims and that are none, and changes that it misses.

Method: simulated requests with a lognormal time to the first token and a lognormal decode (sigma
0.5), one in twenty three times as slow. Each run has a level of its own, which differs by 5 % for
outside reasons. A comparison has five runs of 400 requests per side and goes through the same code
as the command, with its guards (other percentiles, other metrics, segments). There are 1,000
comparisons per row, 200 with ``--quick``.

- *False claim*: "improved" or "worse" although nothing changed. The figure is the upper end of the
  95 % interval of the rate (Wilson), the target is 7 %.
- *Missed*: no "worse" although every request takes 20 % or 50 % longer, or although only the
  slowest 5 % take twice as long.

The alternatives are tests of the pooled requests at the 5 % level: Mann-Whitney and
Kolmogorov-Smirnov. They take requests for independent, so they find the differences of the runs and
claim changes that are none; and they compare whole distributions, so they hardly notice a tail.

Caveats: the shape is plausible, not measured, and elsewhere runs differ by more or less than 5 %.
Percentages are rates over comparisons; they do not depend on the machine.

Reproduce: ``make bench ARGS=comparison_errors``
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from _bench import Figure, Row, Scale, Target
from latspan import Kind
from latspan._study.compare import Judgement, PercentileChange, Question, Run, RunForm, compare
from latspan._study.stats import WeightedSample, bootstrap_ratio, wilson_interval

Values = NDArray[np.float64]

_RUNS: Final = 5
_REQUESTS: Final = 400
_NOISE: Final = 0.05
_CLAIMS: Final = frozenset({Judgement.IMPROVED, Judgement.WORSE})


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    pairs = scale.of(1000)
    random = np.random.default_rng(20)
    same = [(_side(random), _side(random)) for _ in range(pairs)]
    for percentile in (50.0, 95.0, 99.0):
        asked = Question("duration", percentile)
        claims = sum(compare(one, two, asked).judgement in _CLAIMS for one, two in same)
        yield Row(
            what=f"false claims, nothing changed, p{percentile:g}, 5 runs per side (upper bound)",
            latspan=Figure(_upper(claims, pairs)),
            rival=Figure(_upper(sum(_rank_test(one, two) < 0.05 for one, two in same), pairs)),
            rival_name="Mann-Whitney on all requests",
            target=Target(most=7.0),
            unit="%",
        )
    singles = [([_duration_of(one[0])], [_duration_of(two[0])]) for one, two in same]
    claims = sum(
        compare(one, two, Question("duration", 95)).judgement in _CLAIMS for one, two in singles
    )
    yield Row(
        what="false claims, nothing changed, p95, one run per side",
        latspan=Figure(100 * claims / pairs),
        rival=Figure(100 * sum(_rank_test(one, two) < 0.05 for one, two in singles) / pairs),
        rival_name="Mann-Whitney on all requests",
        target=Target(most=0.0),
        unit="%",
    )
    for percentile, factor, most in ((50.0, 1.2, 5.0), (95.0, 1.2, 30.0), (95.0, 1.5, 1.0)):
        found = 0
        for one, _ in same:
            slower = compare(one, _side(random, factor), Question("duration", percentile))
            found += slower.goal.change is PercentileChange.WORSE
        yield Row(
            what=f"missed, {factor - 1:+.0%} at p{percentile:g}, 5 runs per side",
            latspan=Figure(100 * (1 - found / pairs)),
            target=Target(most=most),
            unit="%",
        )
    yield from _slow_tails(random, pairs)
    yield from _queues(random, scale.of(500))


def _slow_tails(random: np.random.Generator, pairs: int) -> Iterator[Row]:
    """Yield the row of a change that only the slowest requests show."""
    found = by_rank = by_distance = 0
    for _ in range(pairs):
        one, two = _side(random, noise=0, size=1000), _side(random, noise=0, size=1000, tail=2.0)
        result = compare(one[:_RUNS], two[:_RUNS], Question("duration", 99))
        found += result.goal.change is PercentileChange.WORSE
        by_rank += _rank_test(one[:1], two[:1]) < 0.05
        by_distance += _distance_test(one[:1], two[:1]) < 0.05
    for name, others in (("Mann-Whitney", by_rank), ("Kolmogorov-Smirnov", by_distance)):
        yield Row(
            what="missed, slowest 5 % twice as slow, p99, 5 runs of 1,000",
            latspan=Figure(100 * (1 - found / pairs)),
            rival=Figure(100 * (1 - others / pairs)),
            rival_name=f"{name}, 1,000 requests per side",
            target=Target(most=10.0),
            unit="%",
        )


def _queues(random: np.random.Generator, pairs: int) -> Iterator[Row]:
    """Yield the row of intervals of two measurements whose neighbouring requests are similar."""
    wrong = single = 0
    for _ in range(pairs):
        one, two = (WeightedSample.of(_correlated(random, 1000)) for _ in range(2))
        blocks = bootstrap_ratio(one, two, 95)
        alone = bootstrap_ratio(
            WeightedSample(one.values, one.counts), WeightedSample(two.values, two.counts), 95
        )
        wrong += blocks is None or not blocks.low <= 1 <= blocks.high
        single += alone is None or not alone.low <= 1 <= alone.high
    yield Row(
        what="intervals that miss the true ratio, p95, correlation 0.8, one run per side",
        latspan=Figure(100 * wrong / pairs),
        rival=Figure(100 * single / pairs),
        rival_name="bootstrap of single requests",
        target=Target(most=8.0),
        unit="%",
    )


def _side(
    random: np.random.Generator,
    factor: float = 1.0,
    *,
    noise: float = _NOISE,
    size: int = _REQUESTS,
    tail: float = 1.0,
) -> list[Run]:
    """Return the runs of one side."""
    return [
        _run(random, factor * math.exp(random.normal(0, noise)), size, tail) for _ in range(_RUNS)
    ]


def _run(random: np.random.Generator, level: float, size: int, tail: float) -> Run:
    slow = np.where(random.random(size) < 0.05, 3.0, 1.0)
    first = 1e8 * level * random.lognormal(0, 0.5, size) * slow
    decode = 4e8 * level * random.lognormal(0, 0.5, size) * slow
    duration = first + decode
    slowest = duration > np.quantile(duration, 0.95)
    decode[slowest] *= tail
    duration = first + decode
    samples = {
        "duration": duration,
        "time_to_first_token": first,
        "segment.prefill": first,
        "segment.decode": decode,
    }
    return Run(
        name="simulated",
        form=RunForm.RECORDING,
        kind=Kind.CALL,
        units=size,
        failed=0,
        samples={name: WeightedSample.of(values) for name, values in samples.items()},
    )


def _duration_of(run: Run) -> Run:
    """Return a run without its guards, each of which takes a bootstrap of its own."""
    return replace(run, samples={"duration": run.samples["duration"]})


def _correlated(random: np.random.Generator, size: int) -> Values:
    steps = random.normal(0, 0.6, size)
    level = np.empty(size)
    level[0] = random.normal()
    for index in range(1, size):
        level[index] = 0.8 * level[index - 1] + steps[index]
    return np.exp(0.5 * level)


def _pooled(side: Sequence[Run]) -> Values:
    return np.concatenate(
        [
            np.repeat(sample.values, sample.counts.astype(np.int64)).astype(np.float64)
            for sample in (run.samples["duration"] for run in side)
        ]
    )


def _rank_test(before: Sequence[Run], after: Sequence[Run]) -> float:
    """Return the two-sided p-value of Mann-Whitney's test; the normal approximation."""
    one, two = _pooled(before), _pooled(after)
    ranks = np.argsort(np.argsort(np.concatenate([one, two]))) + 1
    statistic = ranks[: len(one)].sum() - len(one) * (len(one) + 1) / 2
    mean = len(one) * len(two) / 2
    deviation = math.sqrt(mean * (len(one) + len(two) + 1) / 6)
    return 2 * NormalDist().cdf(-abs(statistic - mean) / deviation)


def _distance_test(before: Sequence[Run], after: Sequence[Run]) -> float:
    """Return the p-value of Kolmogorov and Smirnov's test; the asymptotic series."""
    one, two = np.sort(_pooled(before)), np.sort(_pooled(after))
    every = np.concatenate([one, two])
    steps = [np.searchsorted(each, every, side="right") / len(each) for each in (one, two)]
    distance = float(np.abs(steps[0] - steps[1]).max())
    scaled = distance * math.sqrt(len(one) * len(two) / (len(one) + len(two)))
    terms = ((-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 100))
    return min(1.0, 2 * sum(terms))


def _upper(claims: int, pairs: int) -> float:
    """Return the upper end of the 95 % interval of a rate, in percent."""
    interval = wilson_interval(claims, pairs)
    return 100 * (0.0 if interval is None else interval.high)
