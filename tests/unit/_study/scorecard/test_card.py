"""What a request counts for in a scorecard, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan import semconv
from latspan._base.clock import ManualClock
from latspan._model.goals import InferencePath, Target, TrafficProfile
from latspan._model.metrics import MetricValue
from latspan._model.recording import Recorder, RequestRecord, Snapshot
from latspan._model.segments import Kind, Outcome, Segment, Side
from latspan._study.scorecard import Cycle, Figures, ScorecardBuilder
from latspan._study.scorecard._card import MAX_GROUPS
from latspan._study.stats import wilson_interval
from latspan.errors import ConfigError, UnknownNameError

MS: Final = 1_000_000
MONDAY: Final = 1_795_392_000 * 10**9
"""2026-11-23, the start of a week."""


def record(
    duration_ms: float = 100,
    *,
    outcome: Outcome = Outcome.COMPLETED,
    ttft_ms: float | None = None,
    path: str | None = "chat",
    kind: Kind = Kind.CALL,
    side: Side = Side.CLIENT,
    after_s: float = 0,
    ratio: float = 1,
    stream: bool = False,
    **details: Any,
) -> RequestRecord:
    duration_ns = round(duration_ms * MS)
    metrics = {"duration": MetricValue(duration_ns)}
    if ttft_ms is not None:
        metrics["time_to_first_token"] = MetricValue(round(ttft_ms * MS))
    return RequestRecord(
        name="chat m",
        kind=kind,
        side=side,
        outcome=outcome,
        start_epoch_ns=MONDAY + round(after_s * 10**9),
        duration_ns=duration_ns,
        segments=(Segment("decode", 0, duration_ns),),
        metrics=metrics,
        attributes={} if path is None else {"inference_path": path},
        ratio=ratio,
        details={
            **{f"latspan.load.{name}": value for name, value in details.items()},
            **({semconv.GEN_AI_REQUEST_STREAM: True} if stream else {}),
        },
    )


def path_of(*targets: Target, name: str = "chat") -> InferencePath:
    return InferencePath(name=name, traffic=TrafficProfile(rate_per_s=1), targets=targets)


WITHIN_200: Final = Target(metric="duration", percentile=95, limit_ns=200 * MS)
FIRST_50: Final = Target(metric="ttft", percentile=95, limit_ns=50 * MS)


def figures(
    records: Iterable[RequestRecord], *paths: InferencePath, unsent: int = 0, **settings: Any
) -> Figures:
    builder = ScorecardBuilder(paths, cycles=[Cycle.WEEK], **settings)
    builder.add_records(records, unsent=unsent)
    (card,) = builder.build().cards
    (row,) = card.rows[Cycle.WEEK]
    return row.figures


def known(found: Figures, metric: str = "duration") -> dict[float, float | None]:
    """Return the percentiles of a metric, all of which are known: infinite if on failures."""
    values: dict[float, float | None] = {}
    for percentile, bounds in found.percentiles[metric].items():
        assert bounds is None or bounds.low == bounds.high
        values[percentile] = None if bounds is None else bounds.low
    return values


def number(found: Figures) -> dict[str, int]:
    return {name: each.count for name, each in found.counts.items()}


def test_rates_are_fractions_of_intended_requests() -> None:
    """Those included that were never sent; with Wilson's interval."""
    found = figures(
        [*[record()] * 90, *[record(outcome=Outcome.TIMEOUT)] * 4, record(outcome=Outcome.ERROR)],
        unsent=5,
    )

    assert (found.requests, found.unsent) == (100, 5)
    assert (found.timeouts.count, found.timeouts.of) == (4, 100)
    assert (found.completed.count, found.completed.of) == (90, 100)
    assert (found.completed.low, found.completed.high) == wilson_interval(90, 100)
    assert found.completed.value == 0.9


def test_failed_requests_are_slower_than_all_others() -> None:
    """With 6 of 100 failed, p95 is unbounded; with 5 it is the slowest that succeeded."""
    quick = [record(each) for each in range(1, 95)]

    failing = figures([*quick, *[record(1, outcome=Outcome.TIMEOUT)] * 6])
    almost = figures([*quick, record(95), *[record(1, outcome=Outcome.REJECTED)] * 5])

    assert known(failing)[50] == pytest.approx(50 * MS, rel=0.001)
    assert known(failing)[95] == inf
    assert known(almost)[95] == pytest.approx(95 * MS, rel=0.001)


def test_a_stream_without_a_token_misses_a_first_token_only() -> None:
    """Its user waits for the first token forever; its duration is known."""
    empty = record(100, stream=True)

    found = figures([*[record(150, ttft_ms=40)] * 18, *[empty] * 2], path_of(FIRST_50, WITHIN_200))

    assert number(found) == {"duration": 20, "time_to_first_token": 20}
    assert known(found, "time_to_first_token")[95] == inf
    assert known(found)[95] == pytest.approx(150 * MS, rel=0.001)
    assert found.attainment is not None
    assert (found.attainment.count, found.attainment.of) == (18, 20)
    assert [each and each.misses for each in found.verdicts] == [2, 0]


def test_a_given_up_request_takes_at_least_as_long_as_its_caller_waited() -> None:
    """Half of 100 callers gave up after 5 s: neither percentile can be called 100 ms."""
    left = record(5_000, outcome=Outcome.CANCELLED, stream=True)
    quick = record(100, ttft_ms=40, stream=True)

    found = figures([*[quick] * 50, *[left] * 50], path_of(WITHIN_200, FIRST_50))

    half, tail = found.percentiles["duration"].values()
    assert half is not None
    assert half.low == half.high == pytest.approx(100 * MS, rel=0.001)
    assert tail is not None
    assert tail.low == pytest.approx(5_000 * MS, rel=0.001)
    assert tail.high == inf
    assert (found.counts["duration"].count, found.counts["duration"].cut) == (100, 50)
    first = found.percentiles["time_to_first_token"][95]
    assert first is not None
    assert (first.low, first.high) == (pytest.approx(5_000 * MS, rel=0.001), inf)
    assert [str(each) for each in found.verdicts] == ["missed", "missed"]


def test_a_first_token_before_the_caller_left_is_known() -> None:
    """Only the duration is not."""
    left = record(5, outcome=Outcome.CLOSED_EARLY, ttft_ms=4)

    found = figures([*[record(100, ttft_ms=40)] * 2, *[left] * 3])

    assert number(found) == {"duration": 5, "time_to_first_token": 5}
    assert known(found, "time_to_first_token")[50] == pytest.approx(4 * MS, rel=0.001)
    half = found.percentiles["duration"][50]
    assert half is not None
    assert (half.low, half.high) == (pytest.approx(5 * MS, rel=0.001), inf)
    assert found.completed.of == 5


def test_requests_that_were_left_before_the_limit_make_ranges() -> None:
    """90 meet the target, 2 miss it, and 8 left after 20 ms may have met it or not."""
    left = record(20, outcome=Outcome.CLOSED_EARLY)

    found = figures(
        [*[record(100)] * 90, *[record(300)] * 2, *[left] * 7, replace(left, duration_ns=10**10)],
        path_of(WITHIN_200),
    )

    (verdict,) = found.verdicts
    assert verdict is not None
    assert (verdict.misses, verdict.undecided) == (3, 7)
    assert str(verdict) == "7 of 100 were left before the limit"
    assert found.attainment is not None
    assert (found.attainment.value, found.attainment.most) == (0.9, 0.97)
    low, high = wilson_interval(90, 100), wilson_interval(97, 100)
    assert low is not None
    assert high is not None
    assert (found.attainment.low, found.attainment.high) == (low.low, high.high)
    assert found.goodput_per_s == pytest.approx(90 / found.recorded_s)
    assert found.most_goodput_per_s == pytest.approx(97 / found.recorded_s)


def test_a_percentile_needs_enough_values() -> None:
    """A p50 needs 2 values and a p95 needs 20."""
    assert known(figures([record()])) == {50: None, 95: None}
    assert known(figures([record()] * 19))[95] is None
    assert known(figures([record()] * 20))[95] is not None


def test_attainment_and_goodput_need_all_targets() -> None:
    """A failure misses; a request without a value for a target leaves both sides."""
    records = [
        *[record(150, ttft_ms=40, after_s=each) for each in range(6)],
        record(150, ttft_ms=60, after_s=6),
        record(250, ttft_ms=40, after_s=7),
        record(1, outcome=Outcome.ERROR, after_s=8),
        record(150, after_s=9.85),
        record(1, outcome=Outcome.CANCELLED, after_s=9),
    ]

    found = figures(records, path_of(WITHIN_200, FIRST_50))

    assert found.attainment is not None
    assert (found.attainment.count, found.attainment.undecided, found.attainment.of) == (6, 1, 10)
    assert found.recorded_s == pytest.approx(10)
    assert found.goodput_per_s == pytest.approx(0.6)
    assert found.most_goodput_per_s == pytest.approx(0.7)
    # One was given up, so 8 or 9 of 11 are within 200 ms, and 7 or 8 of 10 have a first token
    # within 50 ms.
    assert [
        (each.requests, each.misses, each.undecided) for each in found.verdicts if each is not None
    ] == [(11, 2, 1), (10, 2, 1)]
    assert str(figures([record()] * 59, path_of(WITHIN_200)).verdicts[0]) == "met"


def test_the_limit_itself_is_within() -> None:
    """At most, not less than."""
    found = figures([record(200)], path_of(WITHIN_200))

    assert found.attainment is not None
    assert found.attainment.count == 1


def test_without_a_target_nothing_is_judged() -> None:
    """No attainment of 100 %."""
    found = figures([record()])

    assert (found.attainment, found.goodput_per_s, found.verdicts) == (None, None, ())


def test_a_load_test_counts_its_measured_phase_from_the_schedule() -> None:
    """A user waits from the moment at which the request was due."""
    found = figures(
        [
            *[record(100, ttft_ms=40, phase="measured", dispatch_lag=0.05)] * 2,
            record(1, phase="warmup"),
            record(1, phase="cold"),
            record(1, phase="drain"),
        ]
    )

    assert found.requests == 2
    assert known(found)[50] == pytest.approx(150 * MS, rel=0.001)
    assert known(found, "time_to_first_token")[50] == pytest.approx(90 * MS, rel=0.001)


def test_only_the_outermost_kind_of_a_source_counts() -> None:
    """Calls are parts of requests; another source may have calls only."""
    builder = ScorecardBuilder(cycles=[Cycle.WEEK])
    builder.add_records([record(kind=Kind.REQUEST), record(), record(), record(kind=Kind.STAGE)])
    builder.add_records([record()] * 3)

    cards = builder.build().cards

    assert [(each.kind, each.rows[Cycle.WEEK][0].figures.requests) for each in cards] == [
        (Kind.CALL, 3),
        (Kind.REQUEST, 1),
    ]
    assert figures([record(kind=Kind.REQUEST), record()], kind=Kind.CALL).requests == 1


def test_sides_and_inference_paths_have_tables_of_their_own() -> None:
    """The one with the most requests first."""
    builder = ScorecardBuilder(cycles=[Cycle.WEEK])
    builder.add_records([record(), record(path="b"), record(path="b"), record(path=None)])
    builder.add_records([record(side=Side.SERVER)] * 3)

    assert [(each.group, each.side) for each in builder.build().cards] == [
        ("chat", Side.SERVER),
        ("b", Side.CLIENT),
        ("chat", Side.CLIENT),
        (None, Side.CLIENT),
    ]


def test_requests_are_grouped_and_selected_by_any_attribute() -> None:
    """Of a series, or one that the application has set."""
    records = [replace(record(), details={"app.plan": "pro"}), record()]
    builder = ScorecardBuilder(by="app.plan", where={"inference_path": "chat"})
    builder.add_records([*records, record(path="b")])

    assert [each.group for each in builder.build().cards] == ["pro", None]
    assert figures(records, where={"app.plan": "pro"}).requests == 1


def test_an_attribute_with_too_many_values_does_not_group() -> None:
    """An identifier of users or requests would have a table each, which takes minutes."""
    builder = ScorecardBuilder(by="tenant")
    records = [replace(record(), attributes={"tenant": f"{at}"}) for at in range(MAX_GROUPS + 1)]

    with pytest.raises(ConfigError, match="1,001 values of 'tenant'"):
        builder.add_records(records)


def test_a_target_applies_to_its_inference_path_only() -> None:
    """Other inference paths are left out; a name that does not occur is an error."""
    builder = ScorecardBuilder([path_of(WITHIN_200)])
    builder.add_records([record(), record(path="b")])
    (card,) = builder.build().cards
    assert (card.group, card.targets) == ("chat", (WITHIN_200,))

    other = ScorecardBuilder([path_of(WITHIN_200, name="caht")])
    other.add_records([record(), record(path="b")])
    with pytest.raises(UnknownNameError) as raised:
        other.build()
    assert raised.value.message == "no request has the inference path 'caht'"
    assert raised.value.hint == (
        "the inference paths, or routes where none is set, are 'chat', 'b';"
        ' set it with latspan.attributes(inference_path="caht")'
    )

    empty = ScorecardBuilder([path_of(WITHIN_200)])
    empty.add_records([record(path=None)])
    with pytest.raises(UnknownNameError) as raised:
        empty.build()
    assert raised.value.hint == 'set it with latspan.attributes(inference_path="chat")'


def test_weeks_and_months_are_rows_in_order() -> None:
    """A request counts in the period in which it begins."""
    week_s = 7 * 86_400
    builder = ScorecardBuilder()
    builder.add_records([record(after_s=week_s), record(), record(after_s=week_s - 0.05)])
    (card,) = builder.build().cards

    assert {
        cycle: [(row.period.label, row.figures.requests) for row in rows]
        for cycle, rows in card.rows.items()
    } == {
        Cycle.WEEK: [("2026-W48", 2), ("2026-W49", 1)],
        Cycle.MONTH: [("2026-11", 3)],
    }


def test_a_sampled_record_stands_for_others() -> None:
    """By the fraction that was kept."""
    builder = ScorecardBuilder(cycles=[Cycle.WEEK])
    builder.add_records([record(ratio=0.1), record()])
    scorecard = builder.build()

    assert scorecard.cards[0].rows[Cycle.WEEK][0].figures.requests == 11
    assert scorecard.notes == ("A recording is a sample: 1 record of it count for others too.",)


def test_weights_are_not_rounded_and_widen_the_intervals() -> None:
    """40 records of 3 in 10 are 133.3 requests, but prove no more than 40."""
    kept = [*[record(100, ratio=0.3)] * 39, record(100, ratio=0.3, outcome=Outcome.TIMEOUT)]

    found = figures(kept, path_of(WITHIN_200))

    assert (found.requests, found.timeouts.count) == (133, 3)
    assert found.timeouts.value == pytest.approx(1 / 40)
    alone = wilson_interval(1, 40)
    assert alone is not None
    assert found.timeouts.low == pytest.approx(alone.low)
    assert found.timeouts.high == pytest.approx(alone.high)
    (verdict,) = found.verdicts
    assert verdict is not None
    assert (verdict.requests, verdict.misses) == (40, 1)
    assert found.goodput_per_s == pytest.approx(39 / 0.3 / found.recorded_s)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 400), st.sampled_from(Outcome), st.sampled_from([1.0, 0.5, 0.3, 0.07])
        ),
        min_size=2,
        max_size=60,
    )
)
def test_percentiles_of_a_sample_are_those_of_the_weighted_records(
    drawn: list[tuple[int, Outcome, float]],
) -> None:
    """Computed apart: sort, add up the weights, and stop at the first that covers the fraction."""
    found = figures([record(ms, outcome=each, ratio=kept) for ms, each, kept in drawn])

    gave_up = {Outcome.CANCELLED, Outcome.CLOSED_EARLY, Outcome.ABANDONED}
    pairs = [
        (
            (ms, ms) if each is Outcome.COMPLETED else (ms if each in gave_up else inf, inf),
            1 / kept,
        )
        for ms, each, kept in drawn
    ]
    total = sum(weight for _, weight in pairs)
    bounds = found.percentiles["duration"][50]
    if bounds is None:
        assert total**2 / sum(weight**2 for _, weight in pairs) < 2 + 1e-6
        return
    for end, shown in ((0, bounds.low), (1, bounds.high)):
        reached = 0.0
        for value, weight in sorted((ends[end], weight) for ends, weight in pairs):
            reached += weight
            if reached >= total / 2 - 1e-6:
                assert shown == (inf if value == inf else pytest.approx(value * MS, rel=0.001))
                break


def test_several_processes_at_once_do_not_lengthen_the_recorded_time() -> None:
    """Goodput is per second of time, not of processes."""
    builder = ScorecardBuilder([path_of(WITHIN_200)], cycles=[Cycle.WEEK])
    for _ in range(2):
        builder.add_records([record(), record(after_s=9.9)])
    builder.add_records([record(after_s=100), record(after_s=109.9)])
    (card,) = builder.build().cards

    assert card.rows[Cycle.WEEK][0].figures.recorded_s == pytest.approx(20)


def snapshot_of(records: Iterable[RequestRecord]) -> Snapshot:
    recorder = Recorder(ManualClock(), keep=0)
    for each in records:
        recorder.record(each)
    return replace(recorder.snapshot(), start_epoch_ns=MONDAY, end_epoch_ns=MONDAY + 10 * 10**9)


OUTCOMES: Final = st.sampled_from(Outcome)


@given(
    st.lists(
        st.builds(
            record,
            st.sampled_from([50, 150, 250, 1000]),
            outcome=OUTCOMES,
            ttft_ms=st.none() | st.sampled_from([10, 40, 60]),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_histograms_give_the_same_figures_as_records(records: list[RequestRecord]) -> None:
    """Of one target; which values belong to one request is unknown."""
    from_records = figures(records, path_of(WITHIN_200))
    builder = ScorecardBuilder([path_of(WITHIN_200)], cycles=[Cycle.WEEK])
    builder.add_snapshots([snapshot_of(records)])
    (card,) = builder.build().cards
    (row,) = card.rows[Cycle.WEEK]

    for name in ("requests", "percentiles", "counts", "timeouts", "completed", "verdicts"):
        assert getattr(row.figures, name) == getattr(from_records, name)
    assert row.figures.attainment == from_records.attainment
    assert row.figures.recorded_s == pytest.approx(10)


def test_an_interval_longer_than_a_week_is_mentioned() -> None:
    """Of logs that were merged into one interval, the weeks cannot be separated."""
    builder = ScorecardBuilder()
    month = replace(snapshot_of([record()]), end_epoch_ns=MONDAY + 20 * 86_400 * 10**9)
    builder.add_snapshots([month])

    assert builder.build().notes == (
        "Histogram logs have 1 interval of more than a week, counted at the start.",
    )


def test_histograms_do_not_judge_several_targets_at_once() -> None:
    """No number is shown that is not known."""
    builder = ScorecardBuilder([path_of(WITHIN_200, FIRST_50)], cycles=[Cycle.WEEK])
    builder.add_snapshots([snapshot_of([record(ttft_ms=40)] * 3)])
    (card,) = builder.build().cards
    found = card.rows[Cycle.WEEK][0].figures

    assert (found.attainment, found.goodput_per_s) == (None, None)
    assert [each.misses for each in found.verdicts if each is not None] == [0, 0]
