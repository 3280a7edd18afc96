"""What a sweep concludes about one inference path, and which inputs drifted beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latspan._study.stats import Verdict
from latspan._study.sweep import SweepAnswer, judge
from latspan.integrations import Outcome
from support.measurements import call, load_test, step
from support.sweeps import folders, judged, runs


def test_the_first_sweep_judges_targets_only(tmp_path: Path) -> None:
    """The requests of all runs are judged together."""
    found = judged(tmp_path / "now")
    assert (found.finding, found.verdict) == (SweepAnswer.NO_DRIFT, Verdict.MET)
    (target,) = found.targets
    assert target.verdict is not None
    assert (target.verdict.requests, target.verdict.misses) == (360, 0)
    assert found.value_ns == pytest.approx(110e6, rel=0.02)
    assert found.sentence == "There is nothing to compare with yet."


def test_a_missed_target_is_drift(tmp_path: Path) -> None:
    """Whatever the comparisons say."""
    found = judged(tmp_path / "now", 900)
    assert (found.finding, found.verdict) == (SweepAnswer.DRIFT, Verdict.MISSED)
    assert "The target is missed: p95 of time_to_first_token at most 500 ms" in found.sentence


@pytest.mark.parametrize(
    ("pinned_ms", "previous_ms", "finding"),
    [
        (100, 100, SweepAnswer.NO_DRIFT),
        (100, 200, SweepAnswer.NO_DRIFT),
        (50, 100, SweepAnswer.DRIFT),
        (100, 50, SweepAnswer.DRIFT),
        (None, 50, SweepAnswer.DRIFT),
    ],
)
def test_worse_than_the_baseline_or_the_previous_sweep_is_drift(
    tmp_path: Path, pinned_ms: float | None, previous_ms: float, finding: SweepAnswer
) -> None:
    """Slow drift shows against the baseline, and a sudden one also against the previous sweep."""
    pinned = [] if pinned_ms is None else runs(tmp_path / "pinned", pinned_ms)
    previous = runs(tmp_path / "previous", previous_ms)
    found = judged(tmp_path / "now", pinned=pinned, previous=previous)
    assert found.finding is finding
    assert found.reference is (found.baseline if pinned else found.previous)


def test_inputs_that_changed_are_shown_and_do_not_prevent_the_judgement(tmp_path: Path) -> None:
    """A longer template makes prefill slower: that is drift, and the template is named."""
    template = {"template": "sha256:1111111111111111"}
    pinned = runs(tmp_path / "pinned", 50, conditions=template)
    now = folders(tmp_path / "now", prompt=140)
    found = judge("chat", now, pinned=pinned, template="sha256:2222222222222222")
    assert found.finding is SweepAnswer.DRIFT
    assert found.baseline is not None
    inputs = {each.name for each in found.baseline.inputs}
    assert inputs == {"template", "input_length"}


def test_a_baseline_without_a_template_is_no_change_of_the_template(tmp_path: Path) -> None:
    """Baselines of latspan compare do not have its fingerprint."""
    found = judged(
        tmp_path / "now", pinned=runs(tmp_path / "pinned"), template="sha256:2222222222222222"
    )
    assert found.baseline is not None
    assert found.baseline.inputs == ()


@pytest.mark.parametrize(
    "difference",
    [
        {"load": {"pattern": "poisson", "rate_per_s": 20}},
        {"conditions": {"processors": 64}},
        {"conditions": {"cache": "cold"}},
    ],
)
def test_another_test_is_not_interpretable(tmp_path: Path, difference: dict[str, Any]) -> None:
    """Even if the latency is the same."""
    found = judged(tmp_path / "now", pinned=runs(tmp_path / "pinned", **difference))
    assert found.finding is SweepAnswer.NOT_INTERPRETABLE


def test_a_difference_that_the_user_names_is_accepted(tmp_path: Path) -> None:
    """For example of runners that are not alike."""
    pinned = runs(tmp_path / "pinned", conditions={"processors": 64})
    found = judged(tmp_path / "now", pinned=pinned, changed=["machine"])
    assert found.finding is SweepAnswer.NO_DRIFT


def test_a_sweep_whose_runs_differ_is_not_interpretable(tmp_path: Path) -> None:
    """Another model than that of the baseline is an input; two models in one sweep are not."""
    pinned = runs(tmp_path / "pinned", conditions={"model": "m-1"})
    now = folders(tmp_path / "now", number=3, conditions={"model": "m-2"})
    assert judge("chat", now, pinned=pinned).finding is SweepAnswer.NO_DRIFT
    mixed = [*now, *folders(tmp_path / "mixed", number=1, conditions={"model": "m-1"})]
    found = judge("chat", mixed, pinned=pinned)
    assert found.finding is SweepAnswer.NOT_INTERPRETABLE
    assert "model of AFTER" in found.sentence


def test_an_invalid_run_is_left_out(tmp_path: Path) -> None:
    """It shows the load generator; the others are judged."""
    valid = folders(tmp_path / "now", number=2)
    late = folders(tmp_path / "late", number=1, loop_lag={"p50": 0.05, "p99": 0.5, "max": 1.0})
    found = judge("chat", [*valid, *late])
    assert (len(found.runs), found.finding) == (2, SweepAnswer.NO_DRIFT)
    assert len(found.invalid) == 1
    found = judge("chat", late, invalid=["the server refused the connection"])
    assert found.finding is SweepAnswer.NOT_INTERPRETABLE
    assert found.verdict is None
    assert "late" in found.sentence


def test_requests_that_were_given_up_leave_a_target_undecided(tmp_path: Path) -> None:
    """Each run has 40 of 160 callers that left after 10 ms: they may have met 500 ms or not."""
    steps = [step(intended=160)]
    target = {"metric": "time_to_first_token", "percentile": 95, "limit_ns": 500_000_000}
    left = [
        replace(call(n, outcome=Outcome.CANCELLED, duration_ms=10), streamed=True)
        for n in range(40)
    ]
    paths = [tmp_path / str(number) for number in range(3)]
    for path in paths:
        records = [*left, *(replace(call(n, at_ms=100 * n), streamed=True) for n in range(40, 160))]
        load_test(path, records, steps, targets=[target])

    (found,) = judge("chat", paths).targets

    assert found.verdict is not None
    assert (found.verdict.requests, found.verdict.misses, found.verdict.undecided) == (480, 0, 120)
    assert found.verdict.verdict is Verdict.UNDECIDED
