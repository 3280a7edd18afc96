"""The summary of a load test, from the records and the account in its recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from latspan._base.nanoseconds import NS_PER_MS
from latspan._study.measurement import Origin, summarize
from latspan._study.stats import Verdict
from latspan.integrations import Outcome
from support.measurements import call, load_test, step

_TARGET = {"metric": "time_to_first_token", "percentile": 95, "limit_ns": 60 * NS_PER_MS}


def test_only_measured_requests_count(tmp_path: Path) -> None:
    """Neither the cold sample, nor warm-up and drain; what the end of the run cut is given up."""
    records = [
        call(0, phase="cold", duration_ms=900),
        call(1, phase="warmup", duration_ms=800),
        call(2),
        call(3, outcome=Outcome.CANCELLED),
        call(4, phase="drain", duration_ms=700),
    ]
    account = step(intended=2, cut=[3], interrupted=True)
    (measured,) = summarize(load_test(tmp_path, records, [account])).steps
    assert measured.outcomes == {Outcome.COMPLETED: 1, Outcome.CANCELLED: 1}
    assert [*measured.latencies["duration", Origin.START].values_ns] == [100 * NS_PER_MS]
    assert (measured.measured, measured.cut) == (2, 1)
    assert measured.latencies["duration", Origin.START].cut == 1
    assert [each.name for each in measured.caveats if each.invalidates] == ["cut_short"]


def test_times_from_schedule_include_the_dispatch_lag(tmp_path: Path) -> None:
    """A request that was sent 30 ms late took 30 ms longer for its user."""
    measurement = summarize(load_test(tmp_path, [call(1, lag_ms=30)], [step(intended=1)]))
    latencies = measurement.steps[0].latencies
    assert [*latencies["duration", Origin.SCHEDULE].values_ns] == [130 * NS_PER_MS]
    assert [*latencies["time_to_first_token", Origin.SCHEDULE].values_ns] == [80 * NS_PER_MS]
    assert [*latencies["time_to_first_token", Origin.START].values_ns] == [50 * NS_PER_MS]
    assert measurement.observed == {"models_returned": ["m-1"]}


def test_a_closed_loop_has_no_schedule(tmp_path: Path) -> None:
    """Its times are from the start, and it is labelled closed."""
    account = step(intended=1, load={"pattern": "closed", "concurrency": 4})
    (measured,) = summarize(load_test(tmp_path, [call(1)], [account])).steps
    assert not measured.is_open
    assert {origin for _, origin in measured.latencies} == {Origin.START}


def test_failures_are_counted_by_outcome_and_by_error(tmp_path: Path) -> None:
    """They have no value, and count in p(all)."""
    records = [
        call(1),
        call(2, outcome=Outcome.ERROR, error="500"),
        call(3, outcome=Outcome.TIMEOUT, error="TimeoutError"),
        call(4, outcome=Outcome.ERROR, error="500"),
    ]
    (measured,) = summarize(load_test(tmp_path, records, [step(intended=4)])).steps
    assert measured.outcomes == {Outcome.COMPLETED: 1, Outcome.ERROR: 2, Outcome.TIMEOUT: 1}
    assert measured.errors == {"500": 2, "TimeoutError": 1}
    assert measured.latencies["duration", Origin.START].failed == 3


@pytest.mark.parametrize(
    ("slow", "failed", "verdict", "needed"),
    [(0, 0, Verdict.MET, 0), (2, 0, Verdict.UNDECIDED, 64), (5, 5, Verdict.MISSED, 0)],
)
def test_a_target_is_proven_or_needs_more(
    tmp_path: Path, slow: int, failed: int, verdict: Verdict, needed: int
) -> None:
    """Of 60 requests, those that are slower than the limit or failed miss it, from schedule."""
    records = [
        call(
            index,
            at_ms=100 * index,
            lag_ms=20 if index < slow else 0,
            outcome=Outcome.ERROR if slow <= index < slow + failed else Outcome.COMPLETED,
        )
        for index in range(60)
    ]
    recording = load_test(tmp_path, records, [step(intended=60)], targets=[_TARGET])
    (result,) = summarize(recording).steps[0].targets
    assert result.verdict is not None
    assert result.verdict.verdict is verdict
    assert (result.verdict.misses, result.verdict.needed) == (slow + failed, needed)
    assert result.origin is Origin.SCHEDULE


def test_a_target_of_a_metric_that_no_request_has_is_not_judged(tmp_path: Path) -> None:
    """A response without a stream has no first token; if all failed, all missed."""
    plain = [call(index, ttft_ms=None) for index in range(60)]
    failed = [call(index, outcome=Outcome.ERROR) for index in range(60)]
    verdicts = [
        summarize(
            load_test(tmp_path / name, records, [step(intended=60)], targets=[_TARGET])
        ).steps[0].targets[0].verdict
        for name, records in (("plain", plain), ("failed", failed))
    ]  # fmt: skip
    assert verdicts[0] is None
    assert verdicts[1] is not None
    assert verdicts[1].verdict is Verdict.MISSED


def test_a_completed_response_without_a_token_misses_a_first_token_target(tmp_path: Path) -> None:
    """Three of four have none, as from a server that is overloaded and answers emptily."""
    records = [call(index, ttft_ms=None if index % 4 else 50) for index in range(260)]
    recording = load_test(tmp_path, records, [step(intended=260)], targets=[_TARGET])
    (measured,) = summarize(recording).steps
    (result,) = measured.targets
    assert result.verdict is not None
    assert (result.verdict.verdict, result.verdict.misses) == (Verdict.MISSED, 195)
    assert measured.latencies["duration", Origin.START].failed == 0
    assert "without_token" in {each.name for each in measured.caveats}


def test_a_cache_that_fills_invalidates(tmp_path: Path) -> None:
    """The cached share of the first third and of the last third differ."""
    records = [
        call(index, at_ms=100 * index, cached=0 if index < 15 else 90) for index in range(30)
    ]
    (measured,) = summarize(load_test(tmp_path, records, [step(intended=30)])).steps
    assert measured.cached == (0.0, 0.9, 0.0)
    assert "cache_drifted" in {each.name for each in measured.caveats}


def test_a_cached_beginning_of_prompts_of_different_lengths_is_no_drift(tmp_path: Path) -> None:
    """26 tokens are cached of each prompt, and long ones happen to be last."""
    lengths = [60] * 5 + [500] + [70] * 6 + [60] * 3 + [500] * 3
    records = [
        call(index, at_ms=100 * index, prompt=length, cached=26)
        for index, length in enumerate(lengths)
    ]
    (measured,) = summarize(load_test(tmp_path, records, [step(intended=18)])).steps
    assert measured.cached is not None
    assert measured.cached.first - measured.cached.last > 0.1
    assert "cache_drifted" not in {each.name for each in measured.caveats}


def test_littles_law_holds_for_a_steady_load_and_not_for_a_growing_one(tmp_path: Path) -> None:
    """100 requests, ten per second, each of which takes a second, or ever longer."""
    steady = [call(index, at_ms=100 * index, duration_ms=1000) for index in range(-10, 100)]
    growing = [call(index, at_ms=100 * index, duration_ms=100 * index) for index in range(100)]
    found = [
        {each.name for each in summarize(recording).steps[0].caveats}
        for recording in (
            load_test(tmp_path / "steady", steady, [step(intended=110)]),
            load_test(tmp_path / "growing", growing, [step(intended=100)]),
        )
    ]
    assert found == [set(), {"not_stationary"}]


def test_each_step_of_a_ladder_has_its_own_requests(tmp_path: Path) -> None:
    """They are distinguished by the number of the step."""
    records = [call(1, number=0), call(1001, number=1, duration_ms=200)]
    recording = load_test(tmp_path, records, [step(intended=1), step(intended=1)])
    durations = [
        [*each.latencies["duration", Origin.START].values_ns] for each in summarize(recording).steps
    ]
    assert durations == [[100 * NS_PER_MS], [200 * NS_PER_MS]]


def test_a_measurement_that_did_not_end_is_invalid(tmp_path: Path) -> None:
    """Its process was killed."""
    recording = load_test(tmp_path, [call(1)], [step(intended=1)], ended=False)
    assert not summarize(recording).is_valid
