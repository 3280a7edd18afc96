"""The order of the runs: a drift over the session is no effect of a change."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from latspan._study.compare import Judgement, Question, Run, compare
from latspan._study.compare._order import order_of
from support.comparisons import runs

P50: Final = Question("duration", 50)
_HOUR_NS: Final = 3_600 * 10**9


def _at(side: list[Run], hours: list[int]) -> list[Run]:
    return [
        replace(run, start_ns=1 + hour * _HOUR_NS) for run, hour in zip(side, hours, strict=True)
    ]


_FASTER: Final = {"queue": 0.6, "prefill": 0.6, "decode": 0.6}
_SLOWER: Final = {"queue": 2.0, "prefill": 2.0, "decode": 2.0}


def test_all_runs_of_one_side_first_are_no_improvement() -> None:
    """The same runs in turn are one."""
    before, after = runs(0), runs(50, factors=_FASTER)
    first = compare(_at(before, [0, 1, 2, 3, 4]), _at(after, [5, 6, 7, 8, 9]), P50)
    in_turn = compare(_at(before, [0, 2, 4, 6, 8]), _at(after, [1, 3, 5, 7, 9]), P50)
    assert first.judgement is Judgement.INCONCLUSIVE
    assert "not interleaved" in first.sentence
    assert first.is_no_worse
    assert in_turn.judgement is Judgement.IMPROVED


def test_two_runs_of_each_side_are_enough_to_judge_the_order() -> None:
    """With them a claim is made, so their order counts."""
    found = compare(_at(runs(0, 2), [0, 1]), _at(runs(50, 2, factors=_FASTER), [2, 3]), P50)
    assert found.judgement is not Judgement.IMPROVED


def test_a_deterioration_larger_than_a_drift_is_found() -> None:
    """Twice as slow from one run to the next is no steady drift."""
    before, after = runs(0), runs(50, factors=_SLOWER)
    found = compare(_at(before, [0, 1, 2, 3, 4]), _at(after, [5, 6, 7, 8, 9]), P50)
    assert found.judgement is Judgement.WORSE
    assert any("Not interleaved" in note for note in found.notes)


def test_a_trend_in_runs_that_take_turns_is_not_called_an_order() -> None:
    """Each run is slower than the one before, whichever side it is of."""
    before, after = _at(runs(0, 2), [0, 2]), _at(runs(50, 2), [1, 3])
    found = order_of(before, after, ([0.0, 1.0], [0.6, 1.6]))
    assert found.reason == "a trend over the session explains 83 % of the difference"
    assert found.advice == "Make more runs of both sides in turn."
