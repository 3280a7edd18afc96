"""Conditions that differ: which make a comparison not interpretable, and which are named only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from latspan import Kind
from latspan._study.compare import Judgement, Question, Run, compare
from latspan.errors import ConfigError
from latspan.testing import RequestRecord, TokenCounts
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


def _without_lengths(record: RequestRecord) -> RequestRecord:
    """Return a call of a server that reports no tokens."""
    return replace(record, tokens=TokenCounts(), metrics={"duration": record.metrics["duration"]})


def _of_stages(record: RequestRecord) -> RequestRecord:
    """Return a request that calls no model."""
    return replace(_without_lengths(record), kind=Kind.REQUEST)


@pytest.mark.parametrize(
    ("change", "judgement"),
    [(_without_lengths, Judgement.INCONCLUSIVE), (_of_stages, Judgement.IMPROVED)],
)
def test_only_answers_of_a_model_may_be_shorter(
    change: Callable[[RequestRecord], RequestRecord], judgement: Judgement
) -> None:
    """Half the time may be half the tokens, unless no model is called."""
    found = compare(
        runs(0, change=change),
        runs(50, change=change, factors={"prefill": 0.5, "decode": 0.5}),
        P95,
    )
    assert found.judgement is judgement
    assert ("answers may be shorter" in found.sentence) is (judgement is Judgement.INCONCLUSIVE)


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


@pytest.mark.parametrize("name", ["machine", "machine of BEFORE"])
def test_a_condition_that_is_accepted_may_also_differ_within_a_side(name: str) -> None:
    """Runs on runners that are not alike are one change, whether sides or runs differ in it."""
    other = {**SAME, "processors": 64}
    mixed = [*runs(0, 2, conditions=SAME), *runs(5, 2, conditions=other)]
    found = compare(mixed, [*runs(50, 2, conditions=SAME), *runs(55, 2, conditions=other)], P95)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    found = compare(mixed, runs(50, 4, conditions=SAME), P95, accept=["machine"])
    assert found.judgement is Judgement.NO_WORSE
    assert {each.name for each in found.differences} == {"machine", "machine of BEFORE"}
    assert found.changes == ("machine",)
    found = compare(mixed, runs(50, 4, conditions=SAME), P95, accept=[name, "machine"])
    assert found.is_attributable


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


def _under_load(*rates: int) -> list[Run]:
    return [
        replace(one, profile=replace(one.profile, load={"pattern": "poisson", "rate_per_s": rate}))
        for rate, one in zip(rates, runs(0, len(rates), conditions=SAME), strict=True)
    ]


def test_runs_of_one_side_must_have_one_load() -> None:
    """Four runs at a rate and one at another are not compared with one and four."""
    found = compare(_under_load(1, 1, 1, 1, 8), _under_load(1, 8, 8, 8, 8), P95)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert [each.name for each in found.differences] == ["load of BEFORE", "load of AFTER"]
    assert str(found.differences[0]) == (
        "load of BEFORE: pattern poisson, rate_per_s 1 in some runs,"
        " pattern poisson, rate_per_s 8 in others"
    )


def test_the_order_of_the_loads_is_no_difference() -> None:
    """The sides have the same set of loads; the runs of each side differ."""
    found = compare(_under_load(1, 8), _under_load(8, 1), P95)
    assert [each.name for each in found.differences] == ["load of BEFORE", "load of AFTER"]


def test_the_same_model_must_answer_all_runs_of_one_side() -> None:
    """Both sides have both models, in another proportion."""
    big, small = ({"conditions": SAME, "models": (name,)} for name in ("m-big", "m-small"))
    before = [*runs(0, 4, **big), *runs(4, 1, **small)]
    after = [*runs(50, 1, **big), *runs(51, 4, **small)]
    found = compare(before, after, P95)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert [each.name for each in found.differences] == [
        "response_model of BEFORE",
        "response_model of AFTER",
    ]


def test_a_run_without_a_response_has_no_other_model() -> None:
    """All its requests failed before a model was named."""
    found = compare([*runs(0, 3), *runs(3, 1, models=("",))], runs(50, 4), P95)
    assert "response_model of BEFORE" in {each.name for each in found.differences}
    silent = [replace(one, profile=replace(one.profile, models=())) for one in runs(3, 1)]
    found = compare([*runs(0, 3), *silent], runs(50, 4), P95)
    assert not found.differences


def test_requests_and_calls_are_not_mixed_in_a_side() -> None:
    """Their order does not matter."""

    def request(record: RequestRecord) -> RequestRecord:
        return replace(record, kind=Kind.REQUEST)

    calls, requests = runs(0, 2), runs(2, 2, change=request)
    found = compare([*calls, *requests], runs(50, 4), P95)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert {"kind", "kind of BEFORE"} <= {each.name for each in found.differences}
    found = compare([*calls, *requests], [*requests, *calls], P95)
    assert {"kind of BEFORE", "kind of AFTER"} == {each.name for each in found.differences}


@pytest.mark.parametrize("length", [60, 300])
def test_conditions_are_compared_as_a_whole(length: int) -> None:
    """They are cut only to be shown, with the part in which they differ."""
    folder = "/srv/models/" + "x" * length
    before, after = (
        runs(seed, 3, conditions={**SAME, "model": f"{folder}.{name}.gguf"})
        for seed, name in ((0, "Q8"), (50, "Q4"))
    )
    (found,) = compare(before, after, P95).differences
    assert found.name == "model"
    assert found.before.startswith("…")
    assert found.before.endswith("x.Q8.gguf")
    assert found.after.endswith("x.Q4.gguf")
    assert len(found.before) < 70


def test_a_long_value_is_shown_from_its_beginning_if_it_differs_there() -> None:
    """The end is cut, which is visible."""
    before, after = (
        runs(seed, 3, conditions={**SAME, "parameters": {"grammar": name + "x" * 100}})
        for seed, name in ((0, "a"), (50, "b"))
    )
    (found,) = compare(before, after, P95).differences
    assert (found.before, found.after) == ("a" + "x" * 59 + "…", "b" + "x" * 59 + "…")


def test_fingerprints_that_begin_alike_differ() -> None:
    """They are shown with their first digits, or with those that differ."""
    prompts = [{"fingerprint": f"sha256:{'0' * 32}{end}"} for end in ("1", "2")]
    before, after = (
        runs(seed, 3, conditions={**SAME, "prompts": each})
        for seed, each in zip((0, 50), prompts, strict=True)
    )
    (found,) = compare(before, after, P95).differences
    assert found.name == "prompts"
    assert found.before != found.after


def test_a_run_without_conditions_does_not_hide_those_of_others() -> None:
    """For example the first run of a baseline that was edited."""
    first = [replace(one, conditions={}) for one in runs(0, 1)]
    mixed = [*first, *runs(1, 2), *runs(3, 2, conditions={**SAME, "cache": "warm"})]
    found = compare(mixed, runs(50, 4), P95)
    assert "cache of BEFORE" in {each.name for each in found.differences}
