"""
The questions of the bench, each with the answer that is right.

What is right was written down before the first run. Two sides of a *pair* have the same truth, or
truths of which the difference is not a change of the speed of the system. *False* is then every
answer that claims a change. In a *power* scenario the sides differ by 20 %. A *cell* is a target
whose percentile is exactly at the limit, so that "met" and "missed" are both wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from verdicts._generator import (
    Bursts,
    Patience,
    Route,
    Runs,
    Sampling,
    System,
    limit_missed_by,
)

Order: TypeAlias = Literal["in_turn", "one_side_first"]

_CLAIMS: Final = frozenset({"improved", "worse"})
_SAME: Final = "no change: any answer except improved and worse"
RUNS_PER_SIDE: Final = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """
    Two sides without a change of the speed of the system.

    Args:
        name: Name for ``--only``.
        what: The situation, in words.
        before: Truth of one side.
        after: Truth of the other side.
        expected: The right answer, in words.
        false: Answers that are false.
        alternate: Whether the sides are exchanged in every second pair.
        order: Whether the runs of both sides alternate in time.
        drift: Relative change of the level from the middle of a session to its end; the change
            from its beginning to its middle is the same.
    """

    name: str
    what: str
    before: System
    after: System
    expected: str = _SAME
    false: frozenset[str] = _CLAIMS
    alternate: bool = False
    order: Order = "in_turn"
    drift: float = 0.0


@dataclass(frozen=True, slots=True)
class Power:
    """
    Two sides of which one is slower.

    Args:
        name: Name for ``--only``.
        what: The situation, in words.
        before: Truth of one side.
        after: Truth of the other side.
        right: The right answer.
    """

    name: str
    what: str
    before: System
    after: System
    right: str


@dataclass(frozen=True, slots=True)
class Cell:
    """
    A target whose percentile is exactly at the limit.

    Args:
        name: Name for ``--only``.
        what: The situation, in words.
        percentile: Percentile of the target.
        metric: Metric of the target.
        system: The truth; the number of requests is drawn for each recording.
        limit_ms: Limit that exactly ``100 - percentile`` % of the requests miss.
        in_memory: Whether an assertion in a test can ask the question too.
    """

    name: str
    what: str
    percentile: int
    metric: str
    system: System
    limit_ms: float
    in_memory: bool

    @property
    def goal(self) -> str:
        """The target as text."""
        return f"p{self.percentile} {self.metric}"


_IID: Final = System()
_BURSTS: Final = replace(_IID, bursts=Bursts())
_ROUTES: Final = replace(_IID, routes=(Route("/fast", 0.8), Route("/slow", 0.2, 3.0)))
_MORE_FAST: Final = replace(_IID, routes=(Route("/fast", 0.97), Route("/slow", 0.03, 3.0)))
_IMPATIENT: Final = replace(_IID, patience=Patience(0.1))
_IMPATIENT_IF_SLOW: Final = replace(_IID, patience=Patience(0.1, correlated=True))
_NO_USAGE: Final = replace(_IID, usage=False)
_NEARLY_EQUAL: Final = replace(_IID, runs=Runs(spread=0.02))
_RUNS_DIFFER: Final = replace(_IID, runs=Runs(spread=0.05))


def _same(name: str, what: str, system: System) -> Pair:
    return Pair(name, what, system, system)


PAIRS: Final[Sequence[Pair]] = (
    _same("iid", "independent lognormal times", _IID),
    _same("iid_requests", "the same, requests with one call each", replace(_IID, kind="request")),
    _same(
        "autocorrelated", "AR(1) of 0.8 on the logarithms", replace(_IID, shape="autocorrelated")
    ),
    _same("bimodal", "30 % of the requests 2.5 times as slow", replace(_IID, shape="bimodal")),
    _same(
        "bimodal_at_p95",
        "5 % of the requests 2.5 times as slow: the p95 is between the modes",
        replace(_IID, shape="two_modes_at_p95"),
    ),
    _same(
        "outlier_runs",
        "levels of the runs vary by 5 %, one run in ten is 30 % slower",
        replace(_IID, runs=Runs(spread=0.05, outlier_share=0.1, outlier_factor=1.3)),
    ),
    _same(
        "sampled_alike",
        "slow bursts kept with ratio 0.1, quiet times with 1",
        replace(_BURSTS, sampling=Sampling(1.0, 0.1)),
    ),
    Pair(
        "sampled_differently",
        "ratios 1 and 0.1 on one side, 0.6 and 0.3 on the other",
        replace(_BURSTS, sampling=Sampling(1.0, 0.1)),
        replace(_BURSTS, sampling=Sampling(0.6, 0.3)),
        alternate=True,
    ),
    Pair(
        "sampled_one_side",
        "one side complete, ratios 1 and 0.1 on the other",
        _BURSTS,
        replace(_BURSTS, sampling=Sampling(1.0, 0.1)),
        alternate=True,
    ),
    _same("cut_independent", "10 % cut, patience independent of slowness", _IMPATIENT),
    _same("cut_correlated", "10 % cut, users of slow requests less patient", _IMPATIENT_IF_SLOW),
    Pair(
        "cut_more_independent",
        "10 % cut on one side, 20 % on the other; patience independent of slowness",
        _IMPATIENT,
        replace(_IID, patience=Patience(0.2)),
        alternate=True,
    ),
    Pair(
        "cut_more_correlated",
        "10 % cut on one side, 20 % on the other; users of slow requests less patient",
        _IMPATIENT_IF_SLOW,
        replace(_IID, patience=Patience(0.2, correlated=True)),
        alternate=True,
    ),
    Pair(
        "mix_to_fast",
        "routes 80/20 before, 97/3 after; no route changed",
        _ROUTES,
        _MORE_FAST,
        expected="no route changed: any answer except improved and worse",
    ),
    Pair(
        "mix_to_slow",
        "routes 97/3 before, 80/20 after; no route changed",
        _MORE_FAST,
        _ROUTES,
        expected="no route changed: any answer except improved and worse",
    ),
    Pair(
        "drift_in_turn",
        "±8 % drift of the level over the session, runs in turn",
        _NEARLY_EQUAL,
        _NEARLY_EQUAL,
        drift=0.08,
    ),
    Pair(
        "drift_one_side_first",
        "±8 % drift of the level over the session, all runs of one side first",
        _NEARLY_EQUAL,
        _NEARLY_EQUAL,
        expected="inconclusive: the order explains the difference. Improved is false; worse is"
        " false too, although a cautious rule may prefer it, so the columns show both",
        order="one_side_first",
        drift=0.08,
    ),
    Pair(
        "rate_halved",
        "half as many requests per second after, each as fast as before",
        _IID,
        replace(_IID, rate_per_s=1.0, requests=200),
        expected="not interpretable, or no claim: the requests are as fast as before",
    ),
    Pair(
        "half_answers_chunks",
        "answers half as long, equal time per token; no usage, but chunks",
        replace(_NO_USAGE, chunks=True),
        replace(_NO_USAGE, chunks=True, lengths="half"),
        expected="not interpretable, or no claim: only the answers are shorter",
    ),
    Pair(
        "half_answers_unknown",
        "answers half as long, equal time per token; neither usage nor chunks",
        _NO_USAGE,
        replace(_NO_USAGE, lengths="half"),
        expected="not interpretable, or no claim: nothing shows that the system is faster",
    ),
    Pair(
        "other_tail",
        "50 or 150 tokens on one side, always 100 on the other; equal time per token",
        replace(_IID, lengths="50_or_150"),
        replace(_IID, lengths="always_100"),
        expected="not interpretable, or no claim: the slow requests have longer answers",
        alternate=True,
    ),
)
"""Pairs without a change, five runs of 400 requests per side."""


POWER: Final[Sequence[Power]] = tuple(
    Power(f"{name}_{runs}", what, system, replace(system, level=level), right)
    for runs, system, varied in (
        ("equal_runs", _NEARLY_EQUAL, "2 %"),
        ("unequal_runs", _RUNS_DIFFER, "5 %"),
    )
    for name, what, level, right in (
        ("slower", f"all requests 20 % slower, runs vary by {varied}", 1.2, "worse"),
        ("faster", f"all requests 20 % faster, runs vary by {varied}", 0.8, "improved"),
    )
)
"""Pairs with a change, five runs of 400 requests per side."""


SIZES: Final = (60, 2000)
"""Range of the number of requests of a recording, before sampling."""


def drawn_size(rng: np.random.Generator) -> int:
    """Draw the number of requests of a recording; each doubling is equally likely."""
    low, high = SIZES
    return round(low * (high / low) ** rng.random())


_EXACT: Final = System(own_spread=0.0, lengths="always_100")
_EXACT_BURSTS: Final = replace(_EXACT, bursts=Bursts())


def _cells() -> Sequence[Cell]:
    duration, first = "duration", "time_to_first_token"
    cells: list[Cell] = []
    for percentile, failures in ((95, 0.02), (99, 0.004)):
        for name, what, metric, system in (
            ("complete", "nothing cut", duration, _EXACT),
            (
                "cut_independent",
                "10 % cut, patience independent of slowness",
                duration,
                replace(_EXACT, patience=Patience(0.1)),
            ),
            (
                "cut_correlated",
                "10 % cut, users of slow requests less patient",
                duration,
                replace(_EXACT, patience=Patience(0.1, correlated=True)),
            ),
            (
                "cut_first_token",
                "first token, short answers, 10 % cut, users of slow requests less patient",
                first,
                replace(_EXACT, lengths="always_10", patience=Patience(0.1, correlated=True)),
            ),
            (
                "sampled",
                "slow bursts kept with ratio 0.1, quiet times with 1",
                duration,
                replace(_EXACT_BURSTS, sampling=Sampling(1.0, 0.1)),
            ),
            (
                "sampled_and_cut",
                "the same, and 10 % cut, users of slow requests less patient",
                duration,
                replace(
                    _EXACT_BURSTS,
                    sampling=Sampling(1.0, 0.1),
                    patience=Patience(0.1, correlated=True),
                ),
            ),
            (
                "failures",
                f"{100 * failures:g} % fail after 50 ms and are misses",
                duration,
                replace(_EXACT, failures=failures),
            ),
        ):
            limit_ms = limit_missed_by(system, metric, 1 - percentile / 100)
            cells.append(
                Cell(
                    name=f"p{percentile}_{name}",
                    what=what,
                    percentile=percentile,
                    metric=metric,
                    system=system,
                    limit_ms=limit_ms,
                    # A test records every request.
                    in_memory=system.sampling is None,
                )
            )
    return tuple(cells)


CELLS: Final = _cells()
"""Targets at the limit; "met" and "missed" are both wrong."""
