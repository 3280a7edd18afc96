"""What a comparison concludes, from runs with known changes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from latspan import semconv
from latspan._study.compare import (
    Comparison,
    Judgement,
    PercentileChange,
    Question,
    compare,
    compare_by,
    question,
)
from latspan._study.stats import Verdict
from latspan.errors import ConfigError, UnknownNameError
from latspan.testing import RequestRecord
from support.comparisons import run, runs

P95 = Question("duration", 95)


def changes_of(found: Comparison) -> dict[str, PercentileChange]:
    """Return the change of each guard, by percentile and name."""
    return {f"p{row.percentile:g} {row.name}": row.change for row in found.rows}


def test_runs_in_which_every_request_failed_are_unbounded() -> None:
    """More of them cannot decide."""
    for failed in (0, 60):
        before = runs(0, 2, count=60, failed=failed)
        found = compare(before, runs(50, 2, count=60, failed=60), P95)
        assert found.needed is None
        assert "unbounded after" in found.sentence
        assert "unknown" not in found.sentence
        assert "would probably decide" not in found.sentence


def test_a_faster_segment_improves_and_is_named() -> None:
    """Prefill takes 40 % of its time; it explains the change, and nothing else does."""
    found = compare(
        runs(0), runs(50, factors={"prefill": 0.4}), Question("time_to_first_token", 95)
    )
    assert found.judgement is Judgement.IMPROVED
    assert found.explanation is not None
    assert found.explanation.leading is not None
    assert found.explanation.leading.name == "prefill"
    assert [each.name for each in found.explanation.segments if each.is_real] == ["prefill"]
    assert "prefill explains it" in found.sentence
    assert changes_of(found)["p95 segment.prefill"] is PercentileChange.IMPROVED


def test_a_segment_that_changed_in_the_other_direction_is_named() -> None:
    """A reader of the sentence alone must not miss it."""
    found = compare(runs(0), runs(50, factors={"prefill": 2.0, "decode": 0.3}), P95)
    assert found.explanation is not None
    leading = found.explanation.leading
    assert leading is not None
    assert leading.name == "decode"
    (other,) = [
        each
        for each in found.explanation.segments
        if each.is_real and each.difference_ns * leading.difference_ns < 0
    ]
    assert other.name == "prefill"
    assert "decode explains it" in found.sentence
    assert "In the other direction, prefill changed by +" in found.sentence


def test_the_changes_of_segments_add_up() -> None:
    """The difference of the tail means is the sum of the differences of the segments."""
    found = compare(runs(0), runs(50, factors={"decode": 1.5}), P95)
    assert found.judgement is Judgement.WORSE
    assert found.explanation is not None
    total = sum(each.difference_ns for each in found.explanation.segments)
    assert total == pytest.approx(found.explanation.difference_ns, rel=1e-6)


def test_a_faster_stage_is_named_and_noise_in_others_is_not() -> None:
    """The reranking of an assistant takes half its time."""
    before = runs(0, factors={"rerank": 4.0})
    found = compare(before, runs(50, factors={"rerank": 2.0}), P95)
    assert found.judgement is Judgement.IMPROVED
    assert found.explanation is not None
    assert [each.name for each in found.explanation.segments if each.is_real] == ["rerank"]
    assert {
        name for name, change in changes_of(found).items() if change is PercentileChange.WORSE
    } == set()


@pytest.mark.repetitive
def test_the_same_system_twice_is_no_worse_or_inconclusive() -> None:
    """Of 40 comparisons, at most 4 claim a change, and most show that it is no worse."""
    judgements = [
        compare(runs(1000 + 20 * pair), runs(1010 + 20 * pair), P95).judgement for pair in range(40)
    ]
    claims = judgements.count(Judgement.IMPROVED) + judgements.count(Judgement.WORSE)
    assert claims <= 4
    assert judgements.count(Judgement.NO_WORSE) >= 20


def test_one_measurement_per_side_never_claims_anything() -> None:
    """Not even for half the time: other reasons may differ between two runs."""
    found = compare(
        [run(1)], [run(2, factors=dict.fromkeys(("queue", "prefill", "decode"), 0.5))], P95
    )
    assert found.judgement is Judgement.INCONCLUSIVE
    assert found.goal.change is PercentileChange.DIFFERS
    assert found.goal.high is not None
    assert found.goal.high < 0.65
    assert "supports no claim" in found.sentence
    assert "5 runs per side" in found.sentence
    assert not found.makes_claim
    assert all(
        row.change not in {PercentileChange.IMPROVED, PercentileChange.WORSE} for row in found.rows
    )


def test_two_measurements_are_explained_by_the_segment_that_differs() -> None:
    """With an interval from blocks of requests."""
    found = compare([run(1, noise=0)], [run(2, noise=0, factors={"decode": 2.0})], P95)
    assert found.explanation is not None
    assert found.explanation.leading is not None
    assert found.explanation.leading.name == "decode"
    assert found.explanation.leading.low_ns is not None
    assert found.explanation.leading.low_ns > 0


def test_a_slow_tail_is_worse_although_the_median_is_not() -> None:
    """The slow tenth takes twice as long: a rank test would find nothing."""
    found = compare(runs(0, count=1000), runs(50, count=1000, tail=2.0), Question("duration", 99))
    assert found.judgement is Judgement.WORSE
    assert changes_of(found)["p50 duration"] is PercentileChange.NO_WORSE


def test_a_guard_that_is_worse_fails_an_improvement() -> None:
    """The first token comes sooner, and decode takes twice as long."""
    found = compare(
        runs(0),
        runs(50, factors={"prefill": 0.4, "queue": 0.5, "decode": 2.0}),
        Question("time_to_first_token", 95),
    )
    assert found.goal.change is PercentileChange.IMPROVED
    assert found.judgement is Judgement.WORSE
    assert "segment.decode" in {row.name for row in found.worse}


def test_more_failures_are_worse_however_fast_the_rest_is() -> None:
    """A server that fails its slowest requests looks faster."""
    found = compare(runs(0), runs(50, factors={"decode": 0.5}, failed=12), P95)
    assert found.judgement is Judgement.WORSE
    assert "more requests fail" in found.sentence


def test_streams_that_all_failed_have_no_first_token_and_are_worse() -> None:
    """They rank last in the time to first token, too."""

    def without_token(record: RequestRecord) -> RequestRecord:
        return replace(record, streamed=True, metrics={})

    after = runs(50, failed=400, change=without_token)
    found = compare(runs(0), after, Question("time_to_first_token", 90))
    assert found.judgement is Judgement.WORSE
    assert "more requests fail" in found.sentence


def test_a_percentile_on_failed_requests_is_unbounded() -> None:
    """A tenth of the requests fails on both sides, so the p95 is infinite."""
    found = compare(runs(0, failed=40), runs(50, failed=40), P95)
    assert found.judgement is Judgement.INCONCLUSIVE
    assert "falls on failed requests" in found.sentence
    assert found.goal.ratio is None


def test_too_few_runs_name_the_number_that_would_decide() -> None:
    """Runs that differ by 20 % need many."""
    found = compare(runs(0, 2, noise=0.2), runs(50, 2, noise=0.2), P95)
    assert found.judgement is Judgement.INCONCLUSIVE
    assert found.needed is not None
    assert found.needed > 2
    assert "runs per side would probably decide" in found.sentence


def test_a_percentile_needs_values_in_each_run() -> None:
    """A p99 needs 100."""
    found = compare(runs(0, count=60), runs(50, count=60), Question("duration", 99))
    assert found.judgement is Judgement.INCONCLUSIVE
    assert "needs 100 values in each run" in found.sentence


def test_one_new_run_is_judged_by_the_variation_of_the_baseline() -> None:
    """Twice as slow is worse; the same system is not."""
    base = runs(0)
    slow = compare(base, [run(60, factors=dict.fromkeys(("queue", "prefill", "decode"), 2.0))], P95)
    assert slow.judgement is Judgement.WORSE
    same = compare(base, [run(61)], P95)
    assert same.judgement in {Judgement.NO_WORSE, Judgement.INCONCLUSIVE}
    assert any("single run" in note for note in same.notes)


def test_improved_and_target_met_are_different_answers() -> None:
    """From 900 ms to about 700 ms, with a target of 500 ms."""
    asked = Question("duration", 95, limit_ns=500_000_000)
    found = compare(runs(0), runs(50, factors={"decode": 0.6}), asked)
    assert found.judgement is Judgement.IMPROVED
    assert found.target is not None
    assert found.target.verdict is Verdict.MISSED
    assert found.met_in == 0


def test_an_invalid_measurement_is_not_interpretable() -> None:
    """Its numbers are those of the load generator."""
    invalid = [replace(each, invalid=("requests were sent late",)) for each in runs(0, 3)]
    found = compare(invalid, runs(50, 3), P95)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert "requests were sent late" in found.sentence


def test_an_exact_permutation_stands_beside_the_test() -> None:
    """Total separation of five and five is two of 252 divisions."""
    found = compare(runs(0), runs(50, factors={"decode": 0.4}), P95)
    assert found.exact_p == pytest.approx(2 / 252)


def slow_summaries(record: RequestRecord) -> RequestRecord:
    """Return the record; a summary takes twice as long."""
    if record.attributes["route"] != "/summary":
        return record
    segments = tuple(
        each._replace(start_ns=2 * each.start_ns, end_ns=2 * each.end_ns)
        for each in record.segments
    )
    return replace(record, duration_ns=2 * record.duration_ns, segments=segments)


def test_groups_are_compared_one_by_one() -> None:
    """One route became slower, the other did not."""
    routes = ("/chat", "/summary")
    before, after = runs(0, routes=routes), runs(50, routes=routes, change=slow_summaries)
    found, notes = compare_by(before, after, P95, "route")
    assert notes == []
    by_route = {each.group: each.judgement for each in found}
    assert by_route[("route", "/summary")] is Judgement.WORSE
    assert by_route[("route", "/chat")] in {Judgement.NO_WORSE, Judgement.INCONCLUSIVE}
    with pytest.raises(ConfigError, match="no request has the attribute tenant"):
        compare_by(runs(0, 1), runs(50, 1), P95, "tenant")


def test_a_group_of_one_side_is_named() -> None:
    """It has nothing to be compared with; before, it was left out without a word."""
    before, after = runs(0, routes=("/chat", "/old")), runs(50, routes=("/chat", "/new"))

    found, notes = compare_by(before, after, P95, "route")

    assert [each.group for each in found] == [("route", "/chat")]
    old, new = (
        sum((each.table.groups["route"][0] == 1).sum() for each in side if each.table)
        for side in (before, after)
    )
    assert sorted(notes) == [
        f"Not compared, because it occurs only after: route /new ({new:,} requests).",
        f"Not compared, because it occurs only before: route /old ({old:,} requests).",
    ]


def test_a_question_is_a_percentile_and_a_metric() -> None:
    """Without one it is the p95 of the duration."""
    one = [run(1, count=20)]
    assert question(None, one, one) == P95
    assert question("p99 ttft", one, one, limit_ms=500).metric == "time_to_first_token"
    for text, error in (("95 ttft", ConfigError), ("p95 nothing", UnknownNameError)):
        with pytest.raises(error):
            question(text, one, one)
    for wrong in ({"limit_ms": 0.0}, {"margin": 1.0}):
        with pytest.raises(ConfigError):
            question(None, one, one, **wrong)
    with pytest.raises(ConfigError, match="has no values of time_to_first_visible_token"):
        compare(one, one, Question("time_to_first_visible_token", 95))


def test_small_segments_do_not_hide_the_one_that_changed() -> None:
    """Each segment that is tested raises the evidence that the others need."""
    small = {f"step {number}": 0.001 for number in range(20)}
    before = runs(0, 4, factors=small)
    after = runs(50, 4, factors={**small, "prefill": 0.8})
    found = compare(before, after, P95).explanation
    assert found is not None
    assert [each.name for each in found.segments if each.is_real] == ["prefill"]


def test_an_interval_that_contradicts_its_result_is_explained() -> None:
    """A row of many needs more evidence than an interval of its own without 0."""
    found = compare(runs(0, 4), runs(50, 4, factors={"prefill": 1.2}), P95)
    unclear = [
        row
        for row in found.rows
        if row.change is PercentileChange.CHANCE
        and row.low is not None
        and row.high is not None
        and not row.low <= 1 <= row.high
    ]
    assert unclear
    assert any("how many rows are tested" in note for note in found.notes)
    calm = compare(runs(0), runs(50), P95)
    assert not any("how many rows are tested" in note for note in calm.notes)


def test_a_stream_without_a_token_never_reaches_its_first_token() -> None:
    """Its duration counts, and it is slower than every other stream at a first token."""

    def without_token(record: RequestRecord) -> RequestRecord:
        details = {**record.details, semconv.GEN_AI_REQUEST_STREAM: True}
        number = (record.start_epoch_ns // 100_000_000) % 5
        metrics = dict(record.metrics)
        if number < 2:
            del metrics["time_to_first_token"]
        return replace(record, metrics=metrics, details=details)

    goal = Question("time_to_first_token", 95)
    found = compare(runs(0), runs(50, change=without_token), goal)
    assert found.judgement is Judgement.WORSE
    duration = next(row for row in found.rows if (row.name, row.percentile) == ("duration", 95))
    assert math.isfinite(duration.after_ns)


def test_tail_bands_of_both_sides_are_the_same_fraction() -> None:
    """Of 40 calls, 30 are the tail band; of 400, 30 too, whose mean is far larger."""
    found = compare([run(1, noise=0, count=100)], [run(1, noise=0, count=2_000)], P95)

    assert found.explanation is not None
    assert found.explanation.after_ns == pytest.approx(found.explanation.before_ns, rel=0.1)
    for each in found.explanation.segments:
        assert each.low_ns is not None
        assert each.high_ns is not None
        assert each.low_ns <= each.difference_ns <= each.high_ns


def test_the_interval_of_two_measurements_has_their_failures() -> None:
    """4 % fail, so the p95 after is near the largest value, or none."""
    found = compare([run(1, noise=0)], [run(2, noise=0, failed=16)], P95)

    assert found.goal.ratio is not None
    assert found.goal.low is not None
    assert found.goal.high is not None
    assert found.goal.ratio > 1.1
    assert found.goal.low <= found.goal.ratio <= found.goal.high
