"""Verification of levers, from runs with known changes."""

from __future__ import annotations

from typing import Any

import pytest

from latspan._study.compare import Judgement, Question
from latspan._study.stats import Verdict
from latspan._study.verify import (
    LEVERS,
    CommandQuality,
    Quality,
    QualityJudgement,
    lever_named,
    verify,
)
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
    assert any("may worsen the quality" in note for note in found.notes)


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
    assert "was not applied: none of connections differs" in found.sentence
    switched = verify(before, after, P95, [LEVERS["connections"]], is_switched=True)
    assert switched.judgement is Judgement.NO_WORSE


def test_a_lever_of_the_server_is_believed_and_noted() -> None:
    """The client cannot see it."""
    found = verify(runs(0), runs(50), P95, [LEVERS["batching"]])
    assert found.judgement is Judgement.NO_WORSE
    assert any("Recordings do not show whether batching" in note for note in found.notes)


def test_a_lever_that_shows_is_not_only_believed() -> None:
    """A cache that is used more is a condition of its recordings."""
    found = verify(runs(0, cached=0), runs(50, cached=800), P95, [LEVERS["prefix-cache"]])
    assert [each.name for each in found.comparison.differences] == ["cached"]
    assert not any("Recordings do not show" in note for note in found.notes)


def test_runs_that_were_repeated_are_noted() -> None:
    """The reader decides whether the machine was too busy."""
    found = verify(runs(0), runs(50), P95, [LEVERS["other"]], repeated=2)
    assert found.notes[0] == "2 runs were invalid and measured again."


def test_another_segment_than_the_levers_own_is_noted() -> None:
    """Prefix caching does not shorten decode."""
    found = verify(runs(0), runs(50, factors={"decode": 0.5}), P95, [LEVERS["prefix-cache"]])
    assert found.judgement is Judgement.IMPROVED
    assert any(note.startswith("decode changed most") for note in found.notes)


def test_a_stage_is_a_step_that_the_lever_of_steps_moves() -> None:
    """A faster reranking is what was announced, whatever the stage is called."""
    before, after = (runs(seed, factors={"rerank": 4.0 - seed / 25}) for seed in (0, 50))
    found = verify(before, after, P95, [LEVERS["retrieval"]])
    assert found.judgement is Judgement.IMPROVED
    assert not any("changed most" in note for note in found.notes)


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


def test_a_check_that_does_not_pass_fails_a_faster_system() -> None:
    """With its exit code and its output in the conclusion."""
    dropped = CommandQuality(QualityJudgement.DROPPED, "./check", "exit code 1: 7 wrong")
    faster = runs(50, factors={"decode": 0.5})
    found = verify(runs(0), faster, P95, [LEVERS["other"]], quality=dropped)
    assert found.comparison.judgement is Judgement.IMPROVED
    assert found.judgement is Judgement.WORSE
    assert "passed before the change and not after it (exit code 1: 7 wrong)" in found.sentence


def test_shorter_answers_of_a_lever_that_shortens_them_are_noted() -> None:
    """The lever may do that, but a part of the gain is less output."""
    found = verify(
        runs(0, conditions=BASE),
        runs(50, conditions={**BASE, "parameters": {"max_tokens": 50}}, output=50),
        P95,
        [LEVERS["output-cap"]],
    )
    assert any("The length of the answers differs" in note for note in found.notes)
    kept = Quality(QualityJudgement.KEPT, 100, 0.9, 0.9, -0.01, 0.01, 0.05, (), (120, 60))
    (note,) = (
        each
        for each in verify(runs(0), runs(50), P95, [LEVERS["other"]], quality=kept).notes
        if "evaluation set" in each
    )
    assert "50% shorter: 120 characters before, 60 after" in note


def test_levers_have_names() -> None:
    """A misspelled one is corrected."""
    assert lever_named("model").may_hurt
    with pytest.raises(ConfigError, match="no lever 'modl'") as raised:
        lever_named("modl")
    assert raised.value.hint == "did you mean model?"
    with pytest.raises(ConfigError, match="no lever is given"):
        verify(runs(0, 1), runs(50, 1), P95, [])


def test_a_lever_does_not_accept_a_side_that_mixes_both_states() -> None:
    """A side is one state of the system: with the lever or without it."""
    new = {**BASE, "model": "s", "parameters": {"max_tokens": 50}}
    before = [*runs(0, 3, conditions=BASE), *runs(3, 2, conditions=new, models=("s-1",))]
    after = runs(50, conditions=new, models=("s-1",), factors={"decode": 0.5})
    found = verify(before, after, P95, [LEVERS["model"], LEVERS["output-cap"]])
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    blocking = {each.name for each in found.comparison.differences if each.blocks}
    assert {
        "model of BEFORE",
        "parameters.max_tokens of BEFORE",
        "response_model of BEFORE",
    } <= blocking
    assert "model of BEFORE: m in some runs, s in others" in found.sentence
