"""Conditions that differ: which make a comparison not interpretable, and which are named only."""

from __future__ import annotations

from typing import Any

import pytest

from latspan._study.compare import Judgement, Question, compare
from latspan.errors import ConfigError
from support.comparisons import runs

P95 = Question("duration", 95)
SAME: dict[str, Any] = {
    "host": "a",
    "processors": 4,
    "model": "m",
    "prompts": {"fingerprint": "sha256:1", "order": "sha256:2"},
    "cache": "cold",
    "parameters": {"max_tokens": 200},
}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("model", {"model": "m-2"}),
        ("prompts", {"prompts": {"fingerprint": "sha256:9", "order": "sha256:2"}}),
        ("cache", {"cache": "warm"}),
        ("parameters.max_tokens", {"parameters": {"max_tokens": 100}}),
        ("parameters.effort", {"parameters": {"max_tokens": 200, "effort": "low"}}),
        ("machine", {"processors": 64}),
    ],
)
def test_a_condition_that_explains_a_change_makes_it_not_interpretable(
    name: str, changed: dict[str, Any]
) -> None:
    """Unless it is the change that was made."""
    before, after = runs(0, 3, conditions=SAME), runs(50, 3, conditions={**SAME, **changed})
    found = compare(before, after, P95)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert found.differences[0].name == name
    assert name in found.sentence
    accepted = compare(before, after, P95, accept=[name])
    assert accepted.judgement is not Judgement.NOT_INTERPRETABLE
    assert accepted.differences[0].accepted


@pytest.mark.parametrize(
    ("name", "changed"),
    [("host", {"host": "b"}), ("order", {"prompts": {"fingerprint": "sha256:1", "order": "x"}})],
)
def test_other_conditions_are_named(name: str, changed: dict[str, Any]) -> None:
    """The order of the prompts is another one in each run."""
    found = compare(runs(0, 3, conditions=SAME), runs(50, 3, conditions={**SAME, **changed}), P95)
    assert [each.name for each in found.differences] == [name]
    assert found.judgement is not Judgement.NOT_INTERPRETABLE


def test_shorter_answers_are_not_faster_ones() -> None:
    """20 % fewer output tokens explain 20 % less time."""
    found = compare(runs(0), runs(50, output=80, factors={"decode": 0.8}), P95)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert "output_length" in found.sentence


def test_a_difference_of_length_by_chance_explains_nothing() -> None:
    """Of five calls each, the mean length of the answers is not known."""
    found = compare(runs(0, 1, count=5, output=2), runs(70, 1, count=5, output=2), P95)
    assert found.judgement is Judgement.INCONCLUSIVE


@pytest.mark.parametrize(
    ("name", "changes"), [("cached", {"cached": 700}), ("response_model", {"models": ("m-2",)})]
)
def test_what_requests_were_like_is_compared_too(name: str, changes: dict[str, Any]) -> None:
    """A cache that the first measurement has filled, and another model under the same name."""
    found = compare(runs(0, 3), runs(50, 3, **changes), P95)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert found.differences[0].name == name


def test_runs_of_one_side_must_have_equal_conditions() -> None:
    """Otherwise their variation is not chance."""
    mixed = [*runs(0, 2, conditions=SAME), *runs(5, 2, conditions={**SAME, "cache": "warm"})]
    found = compare(mixed, runs(50, 4, conditions=SAME), P95)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert "cache of BEFORE" in {each.name for each in found.differences}


def test_two_accepted_differences_cannot_be_told_apart() -> None:
    """The change is real, but which of the two made it is unknown."""
    changed = {**SAME, "model": "m-2", "parameters": {"max_tokens": 100}}
    found = compare(
        runs(0, conditions=SAME),
        runs(50, conditions=changed, factors={"decode": 0.5}),
        P95,
        accept=["model", "parameters.max_tokens"],
    )
    assert found.judgement is Judgement.IMPROVED
    assert not found.is_attributable
    assert "not attributable" in found.sentence


def test_accepting_what_does_not_differ_is_an_error() -> None:
    """It is probably a misspelling, or the change was not made."""
    with pytest.raises(ConfigError, match="model is not different") as raised:
        compare(runs(0, 1), runs(50, 1), P95, accept=["model"])
    assert raised.value.hint == "no known condition is"


def test_what_the_responses_show_varies_between_equal_runs() -> None:
    """One more connection in one run does not make five runs not interpretable."""
    before, after = (
        [
            *runs(seed, 1, conditions={**SAME, "connections_reused": 0.99, "cached_input": 0.51}),
            *runs(seed + 1, 1, conditions={**SAME, "connections_reused": 0.98}),
        ]
        for seed in (0, 50)
    )
    compared = compare(before, after, P95)
    assert not compared.differences
    assert compared.judgement is not Judgement.NOT_INTERPRETABLE


def test_a_change_of_the_reuse_of_connections_is_named() -> None:
    """A server with a shorter queue needs fewer connections: an effect, and no other change."""
    before, after = (
        runs(seed, 3, conditions={**SAME, "connections_reused": reused})
        for seed, reused in ((0, 0.5), (50, 0.98))
    )
    found = compare(before, after, P95)
    assert [str(each) for each in found.differences] == [
        "connections_reused: 50% before, 98% after"
    ]
    assert found.judgement is not Judgement.NOT_INTERPRETABLE


def test_a_model_that_is_the_change_is_accepted_once() -> None:
    """The list of models in the conditions repeats the models of the responses."""
    before, after = (
        runs(seed, 3, conditions={**SAME, "models_returned": [name]}, models=(name,))
        for seed, name in ((0, "m-1"), (50, "m-2"))
    )
    found = compare(before, after, P95, accept=["response_model"])
    assert [each.name for each in found.differences] == ["response_model"]
    assert found.judgement is not Judgement.NOT_INTERPRETABLE
