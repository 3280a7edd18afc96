"""Assertions of the fixture: a target is met, and nothing became worse than a baseline."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import latspan
from latspan import Kind, semconv
from latspan._model.goals import PercentileGoal
from latspan.errors import ConfigError, EmptyHistogramError, UnknownNameError
from latspan.integrations import Outcome
from latspan.testing import (
    LatspanCapture,
    ManualClock,
    MetricValue,
    RequestRecord,
    Segment,
    capture,
)
from latspan.testing._assertions import check_no_worse, check_target

Check = Callable[[LatspanCapture], None]


def recorded(
    check: Check,
    *,
    requests: int = 60,
    slow: int = 0,
    failed: int = 0,
    factor: float = 1.0,
    seed: int = 0,
    saves: bool = False,
) -> None:
    """
    Record requests of about 100 ms on a manual clock, and run a check on them.

    Args:
        check: The check.
        requests: Number of requests.
        slow: Number of them that take a second.
        failed: Number of them that fail.
        factor: Factor of the time of all.
        seed: Seed of the run.
        saves: Whether runs are added to baselines.
    """
    noise = random.Random(seed)  # noqa: S311 - no secret
    level = factor * noise.gauss(1, 0.02)
    clock = ManualClock()
    with capture(clock=clock) as captured:
        for index in range(requests):
            try:
                with latspan.request("answer"), latspan.stage("retrieve"):
                    time_ns = 1e9 if index < slow else 1e8 * level * noise.uniform(0.9, 1.1)
                    clock.advance(round(time_ns))
                    if index >= requests - failed:
                        raise TimeoutError
            except TimeoutError:
                pass
        check(LatspanCapture(captured, saves_baselines=saves))


def target(**changes: Any) -> Check:
    """Return the check of a p95 of 200 ms."""
    arguments: dict[str, Any] = {"limit_ms": 200, **changes}
    return lambda found: found.assert_target("p95 duration", **arguments)


def no_worse(file: Path, **changes: Any) -> Check:
    """Return the check against a baseline."""
    return lambda found: found.assert_no_worse(file, **changes)


def baseline(file: Path, runs: int = 5) -> Path:
    """Write a baseline of several runs as the option of pytest does."""
    for seed in range(1, runs + 1):
        recorded(no_worse(file), seed=seed, saves=True)
    return file


def test_a_target_is_met_from_59_requests_on() -> None:
    """Exact binomial, 95 %."""
    recorded(target(), requests=59)
    recorded(target(), requests=93, slow=1)


def test_the_limit_can_be_in_the_goal() -> None:
    """The message of a missed target states it as that of a separate limit."""
    recorded(lambda found: found.assert_target("p95 duration <= 200ms"), requests=59)
    with pytest.raises(AssertionError, match="p95 duration at most 200 ms is missed"):
        recorded(lambda found: found.assert_target("p95 duration <= 200ms"), slow=8)


def test_a_missed_target_fails_with_its_numbers() -> None:
    """And with what to do next."""
    with pytest.raises(AssertionError, match="8 of 60 requests took longer or failed") as raised:
        recorded(target(), slow=6, failed=2)
    assert "p95 duration at most 200 ms is missed" in str(raised.value)
    assert 'latspan_capture.diagnose("p95 duration")' in str(raised.value)


def test_too_few_requests_are_undecided() -> None:
    """Which fails the test, or skips it."""
    with pytest.raises(AssertionError, match="undecided: 0 of 20 requests") as raised:
        recorded(target(), requests=20)
    assert "39 more without a miss would prove it" in str(raised.value)
    with pytest.raises(pytest.skip.Exception, match="undecided"):
        recorded(target(undecided="skip"), requests=20)


def test_a_failed_request_misses_the_target() -> None:
    """However fast it failed."""
    with pytest.raises(AssertionError, match=r"\(10 failed\)"):
        recorded(target(), failed=10)


def test_a_stream_without_a_token_misses_a_target_of_the_first_one() -> None:
    """It is complete, but its user never saw anything; its duration is one of the others."""

    def call(number: int) -> RequestRecord:
        metrics = {"duration": MetricValue(10**8), "time_to_first_token": MetricValue(10**7)}
        if number % 3 == 0:
            del metrics["time_to_first_token"]
        return RequestRecord(
            name="chat m",
            kind=Kind.CALL,
            outcome=Outcome.COMPLETED,
            start_epoch_ns=number,
            duration_ns=10**8,
            segments=(Segment("decode", 0, 10**8),),
            metrics=metrics,
            details={semconv.GEN_AI_REQUEST_STREAM: True},
        )

    calls = [call(number) for number in range(90)]
    options: dict[str, Any] = {"kind": Kind.CALL, "confidence": 0.95, "undecided": "fail"}
    check_target(calls, PercentileGoal("duration", 95, 2 * 10**8), **options)
    with pytest.raises(AssertionError, match="30 of 90 calls"):
        check_target(calls, PercentileGoal("ttft", 95, 2 * 10**8), **options)


def test_a_target_can_be_of_some_requests() -> None:
    """Of those with an outcome, a route or another attribute."""
    recorded(target(outcome="completed"), requests=70, failed=10)
    with pytest.raises(UnknownNameError):
        recorded(target(tenant="acme"))


MISTAKES: list[tuple[Check, type[Exception]]] = [
    (lambda found: found.assert_target("p95", limit_ms=1), ConfigError),
    (lambda found: found.assert_target("p95 duration"), ConfigError),
    (lambda found: found.assert_target("p95 duration <= 1ms", limit_ms=1), ConfigError),
    (lambda found: found.assert_target("p95 duration <= 1ms", limit_ms=2), ConfigError),
    (lambda found: found.assert_no_worse("nothing.json", "p95 duration <= 1ms"), ConfigError),
    (lambda found: found.assert_target("p95 duration", limit_ms=0), ConfigError),
    (lambda found: found.assert_target("p95 nothing", limit_ms=1), UnknownNameError),
    (lambda found: found.assert_target("p95 duration", limit_ms=1, kind="x"), UnknownNameError),
    (lambda found: found.assert_no_worse("nothing.json"), ConfigError),
]


@pytest.mark.parametrize(("check", "error"), MISTAKES)
def test_a_mistake_is_explained(check: Check, error: type[Exception]) -> None:
    """It is no failed assertion."""
    with pytest.raises(error, match="hint:"):
        recorded(check)


def test_without_a_request_nothing_is_met() -> None:
    """The error states why there are none."""
    with pytest.raises(EmptyHistogramError):
        recorded(target(), requests=0)


def test_the_same_code_is_no_worse_than_its_baseline(tmp_path: Path) -> None:
    """A baseline is made of runs of the test itself, on this machine."""
    file = baseline(tmp_path / "answer.json")
    document = json.loads(file.read_text("utf-8"))
    assert (document["schema"], len(document["runs"])) == ("latspan.baseline/1", 5)
    recorded(no_worse(file, undecided="fail"), seed=9)


def test_slower_code_fails_and_names_the_segment(tmp_path: Path) -> None:
    """Half as slow again, in a stage."""
    file = baseline(tmp_path / "answer.json")
    with pytest.raises(AssertionError, match="p95 duration is worse") as raised:
        recorded(no_worse(file), seed=9, factor=1.5)
    assert "retrieve explains it" in str(raised.value)


def test_more_failures_fail(tmp_path: Path) -> None:
    """Although no completed request is slower."""
    file = baseline(tmp_path / "answer.json")
    with pytest.raises(AssertionError, match="more requests fail"):
        recorded(no_worse(file), seed=9, failed=6)


def test_a_single_run_is_no_baseline(tmp_path: Path) -> None:
    """It does not show how much runs differ, so the test is skipped, or fails if that is asked."""
    file = baseline(tmp_path / "answer.json", runs=1)
    with pytest.raises(pytest.skip.Exception, match="supports no claim"):
        recorded(no_worse(file), seed=9, factor=1.5)
    with pytest.raises(AssertionError, match="--latspan-save-baselines"):
        recorded(no_worse(file, undecided="fail"), seed=9, factor=1.5)


def test_a_baseline_of_another_machine_is_not_interpretable(tmp_path: Path) -> None:
    """Unless the machine is the change."""
    file = baseline(tmp_path / "answer.json")
    document = json.loads(file.read_text("utf-8"))
    for run in document["runs"]:
        run["conditions"]["processors"] = 640
    file.write_text(json.dumps(document), "utf-8")
    with pytest.raises(AssertionError, match="Not interpretable") as raised:
        recorded(no_worse(file), seed=9)
    assert 'changed=["machine"]' in str(raised.value)
    recorded(no_worse(file, changed=["machine"]), seed=9)


def test_the_option_adds_the_run_of_each_test(tmp_path: Path) -> None:
    """As a user types it, in a folder with one test."""
    (tmp_path / "test_answer.py").write_text(
        "import latspan\n"
        "def test_answer(latspan_capture):\n"
        "    for _ in range(30):\n"
        "        with latspan.request('answer'):\n"
        "            pass\n"
        "    latspan_capture.assert_no_worse('answer.json', margin=50)\n",
        "utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs"]
    for _ in range(2):
        done = subprocess.run(
            [*command, "--latspan-save-baselines"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout
    assert len(json.loads((tmp_path / "answer.json").read_text("utf-8"))["runs"]) == 2


def test_another_word_for_undecided_is_an_error() -> None:
    """A misspelt `skip` must not fail the test."""
    word: Any = "skp"
    goal = PercentileGoal("ttft", 95, 1)
    with pytest.raises(ConfigError, match="undecided is 'skp'"):
        check_target((), goal, kind=Kind.CALL, confidence=0.95, undecided=word)
    with pytest.raises(ConfigError, match="undecided is 'skp'"):
        check_no_worse((), "b.json", goal, kind=Kind.CALL, margin=None, changed=(), undecided=word)
