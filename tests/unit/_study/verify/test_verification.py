"""Verification of levers, from runs with known changes."""

from __future__ import annotations

from typing import Any

import pytest

from latspan._study.compare import Judgement, Question
from latspan._study.stats import Verdict
from latspan._study.verify import LEVERS, Quality, QualityJudgement, lever_named, verify
from latspan.errors import ConfigError
from support.comparisons import runs

P95 = Question("duration", 95)
BASE: dict[str, Any] = {"model": "m", "parameters": {"max_tokens": 200}, "connections": "new"}


def quality(judgement: QualityJudgement) -> Quality:
    """Return a comparison of answers with a judgement."""
    return Quality(judgement, 100, 0.9, 0.8, -0.15, -0.05, 0.05, ("3",))


def test_one_lever_that_works_is_improved_and_attributable() -> None:
    """Only the condition that belongs to it differs."""
    found = verify(
        runs(0, conditions=BASE),
        runs(50, conditions={**BASE, "model": "s"}, models=("s-1",), factors={"decode": 0.5}),
        P95,
        [LEVERS["model"]],
    )
    assert found.judgement is Judgement.IMPROVED
    assert found.is_attributable
    assert "not attributable" not in found.sentence
    assert {each.name for each in found.comparison.differences if each.accepted} == {
        "model",
        "response_model",
    }
    assert any("may hurt the quality" in note for note in found.notes)


def test_two_levers_at_once_that_miss_the_target_are_neither_met_nor_attributable() -> None:
    """Worked example of a guide: from 900 to 550 ms with two levers, reported as a win at 500."""
    asked = Question("duration", 95, limit_ns=500_000_000)
    faster = {"queue": 0.5, "prefill": 0.5, "decode": 0.62}
    levers = [LEVERS["prefix-cache"], LEVERS["batching"]]
    found = verify(runs(0), runs(50, factors=faster), asked, levers)
    assert 520e6 < found.comparison.goal.after_ns < 580e6
    assert found.judgement is Judgement.IMPROVED
    assert found.comparison.target is not None
    assert found.comparison.target.verdict is Verdict.MISSED
    assert not found.is_attributable
    assert "improved" in found.sentence
    assert "The target of 500 ms is missed" in found.sentence
    assert "not attributable: prefix-cache and batching changed together" in found.sentence


def test_anything_else_that_differs_is_not_interpretable() -> None:
    """The lever explains the parameters, but not the connections."""
    changed = {**BASE, "parameters": {"max_tokens": 50}, "connections": "reused"}
    found = verify(
        runs(0, conditions=BASE), runs(50, conditions=changed), P95, [LEVERS["output-cap"]]
    )
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert "connections" in found.sentence


def test_a_lever_that_was_not_pulled_is_not_interpretable() -> None:
    """Nothing that shows it differs; a command that switched is evidence enough."""
    before, after = runs(0, conditions=BASE), runs(50, conditions=BASE)
    found = verify(before, after, P95, [LEVERS["connections"]])
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert "was not pulled: none of connections differs" in found.sentence
    switched = verify(before, after, P95, [LEVERS["connections"]], is_switched=True)
    assert switched.judgement is Judgement.NO_WORSE


def test_a_lever_of_the_server_is_believed_and_noted() -> None:
    """The client cannot see it."""
    found = verify(runs(0), runs(50), P95, [LEVERS["batching"]])
    assert found.judgement is Judgement.NO_WORSE
    assert any("Recordings do not show whether batching" in note for note in found.notes)


def test_another_segment_than_the_levers_own_is_noted() -> None:
    """Prefix caching does not shorten decode."""
    found = verify(runs(0), runs(50, factors={"decode": 0.5}), P95, [LEVERS["prefix-cache"]])
    assert found.judgement is Judgement.IMPROVED
    assert any(note.startswith("decode changed most") for note in found.notes)


@pytest.mark.parametrize(
    ("shown", "judgement"),
    [
        (QualityJudgement.KEPT, Judgement.IMPROVED),
        (QualityJudgement.DROPPED, Judgement.WORSE),
        (QualityJudgement.INCONCLUSIVE, Judgement.INCONCLUSIVE),
    ],
)
def test_worse_answers_fail_a_faster_system(shown: QualityJudgement, judgement: Judgement) -> None:
    """And too few answers leave it open."""
    found = verify(
        runs(0), runs(50, factors={"decode": 0.5}), P95, [LEVERS["other"]], quality=quality(shown)
    )
    assert found.judgement is judgement
    assert f"Quality {shown}" in found.sentence


def test_levers_have_names() -> None:
    """A misspelled one is corrected."""
    assert lever_named("model").may_hurt
    with pytest.raises(ConfigError, match="no lever 'modl'") as raised:
        lever_named("modl")
    assert raised.value.hint == "did you mean model?"
    with pytest.raises(ConfigError, match="no lever is given"):
        verify(runs(0, 1), runs(50, 1), P95, [])
