"""Percentiles of a snapshot are numbers only if requests without a value do not decide them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.censoring import AT_LEAST, percentile_bounds
from latspan._model.metrics import MetricValue
from latspan._model.recording import (
    Recorder,
    RequestRecord,
    Snapshot,
    read_snapshots,
    write_interval,
)
from latspan._model.segments import CUT, FAILURES, Kind, Outcome, Segment
from latspan.errors import EmptyHistogramError, NotEnoughValuesError, UndeterminedPercentileError
from latspan.histogram import HistogramLogWriter, values_needed
from latspan.testing import ManualClock


def call(
    duration_ms: int = 100,
    *,
    ttft_ms: int | None = None,
    outcome: Outcome = Outcome.COMPLETED,
    streamed: bool | None = True,
    kind: Kind = Kind.CALL,
    metrics_ms: Mapping[str, int] = MappingProxyType({}),
) -> RequestRecord:
    duration_ns = duration_ms * NS_PER_MS
    metrics = {name: MetricValue(value * NS_PER_MS) for name, value in metrics_ms.items()}
    first_ns = duration_ns
    segments = [Segment("server_wait", 0, duration_ns)]
    if ttft_ms is not None:
        first_ns = ttft_ms * NS_PER_MS
        for name in ("first_chunk", "first_token", "first_visible_token"):
            metrics[f"time_to_{name}"] = MetricValue(first_ns)
        segments = [
            Segment("server_wait", 0, first_ns),
            Segment("decode", first_ns, duration_ns),
        ]
    return RequestRecord(
        name="chat m",
        kind=kind,
        outcome=outcome,
        start_epoch_ns=0,
        duration_ns=duration_ns,
        segments=tuple(segments),
        metrics=metrics,
        attributes={"model": "m"},
        streamed=streamed,
    )


CUT_AT_5_S = call(5_000, outcome=Outcome.CANCELLED)
FAST = call(300, ttft_ms=100)


def snapshot_of(records: Iterable[RequestRecord], **settings: int) -> Snapshot:
    recorder = Recorder(ManualClock(), **settings)
    for record in records:
        recorder.record(record)
    return recorder.snapshot()


def without_bounds(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot as a file of an older release has it."""
    held = {key: series for key, series in snapshot.series.items() if not key.is_at_least}
    return replace(snapshot, series=held, recorders=frozenset())


def test_calls_that_were_given_up_decide_a_p95() -> None:
    """Of twenty calls, two were cancelled after 5 s; the other 18 had a token in 100 ms."""
    snapshot = snapshot_of([*[FAST] * 18, *[CUT_AT_5_S] * 2])

    assert snapshot.percentile("ttft", 50) == pytest.approx(100, rel=0.001)
    with pytest.raises(UndeterminedPercentileError) as raised:
        snapshot.percentile("ttft", 95)
    assert raised.value.message == (
        "p95 of time_to_first_token is at least 5,000.0 ms: 2 of 20 calls were given up before it"
    )
    assert "percentile_bounds()" in (raised.value.hint or "")
    assert (raised.value.count, raised.value.cut, raised.value.failed) == (20, 2, 0)
    assert raised.value.low == pytest.approx(5_000, rel=0.001)
    assert isinstance(raised.value, NotEnoughValuesError)
    assert snapshot.percentile("ttft", 95, default=None) is None


def test_one_call_in_twenty_does_not_decide_a_p95() -> None:
    """Nineteen of twenty calls are 95 %, however long the twentieth would have taken."""
    snapshot = snapshot_of([*[FAST] * 19, CUT_AT_5_S])

    assert snapshot.percentile("ttft", 95) == pytest.approx(100, rel=0.001)
    assert snapshot.percentile_bounds("ttft", 95) == (snapshot.percentile("ttft", 95),) * 2
    assert snapshot.metric("ttft").percentile_bounds(100) == (
        pytest.approx(5_000, rel=0.001),
        math.inf,
    )


def test_both_ends_of_a_percentile() -> None:
    """A call that was given up counts with its wait, and as infinitely slow."""
    values = snapshot_of([*[FAST] * 18, *[CUT_AT_5_S] * 2]).metric("ttft")

    low, high = values.percentile_bounds(95, unit="s")
    assert low == pytest.approx(5, rel=0.001)
    assert low <= 5
    assert high == math.inf
    assert (values.count(), values.cut(), values.failed()) == (18, 2, 0)
    assert "p95 ≥ 5,000 ms (cut 10 %)" in repr(values)


def test_a_text_has_both_ends_of_a_percentile() -> None:
    """The lower one alone would hide how little is unknown."""
    calls = [call(500, ttft_ms=100 + 10 * at) for at in range(20)]
    left_at_once = call(1, outcome=Outcome.CANCELLED)

    values = snapshot_of([*calls, *[left_at_once] * 2]).metric("ttft")

    assert "p50 180 ms to 200 ms (cut 9.1 %)" in repr(values)


def test_a_percentile_of_failed_calls_does_not_exist() -> None:
    """A failed call ranks last, at both ends, and also if its first token came."""
    failed = call(50, ttft_ms=20, outcome=Outcome.ERROR)
    snapshot = snapshot_of([*[FAST] * 18, failed, call(5, outcome=Outcome.REJECTED)])

    assert snapshot.percentile("ttft", 90) == pytest.approx(100, rel=0.001)
    assert snapshot.percentile_bounds("ttft", 95) == (math.inf, math.inf)
    for metric in ("ttft", "duration"):
        with pytest.raises(UndeterminedPercentileError, match="does not exist: 2 of 20 calls fail"):
            snapshot.percentile(metric, 95)
    assert "p95 — (failed 10 %)" in repr(snapshot.metric("ttft"))


def test_a_duration_that_was_cut_is_a_lower_bound() -> None:
    """The series of the duration have no sibling: their outcome shows what they are."""
    snapshot = snapshot_of([*[FAST] * 18, *[CUT_AT_5_S] * 2])

    assert "duration" + AT_LEAST not in {key.metric for key in snapshot.series}
    assert snapshot.percentile_bounds("duration", 95) == (pytest.approx(5_000, rel=0.001), math.inf)
    assert snapshot.metric("duration").max() == 5_000
    assert snapshot.count() == 20


def test_values_beyond_the_cuts_are_known() -> None:
    """A call that was cut after 50 ms may have been the fastest or the slowest."""
    snapshot = snapshot_of([*[FAST] * 30, call(50, outcome=Outcome.CLOSED_EARLY)])

    assert snapshot.percentile("ttft", 50) == snapshot.percentile("ttft", 95)
    assert snapshot.percentile_bounds("ttft", 0) == (50, 100)


def test_a_question_about_an_outcome_is_about_the_values_seen() -> None:
    """Such a question leaves out the calls that were given up, and its answer says so."""
    snapshot = snapshot_of(
        [*[FAST] * 20, *[CUT_AT_5_S] * 2, call(7, ttft_ms=5, outcome=Outcome.ERROR)]
    )

    for part in (snapshot.where(outcome="completed"), snapshot.group_by("outcome")["completed"]):
        assert part.percentile("ttft", 95) == pytest.approx(100, rel=0.001)
    assert snapshot.percentile("ttft", 100, outcome="completed") == 100
    assert snapshot.percentile("duration", 50, outcome="cancelled") == 5_000
    assert snapshot.percentile("duration", 50, outcome="error", default=None) is None
    completed = snapshot.metric("ttft", outcome="completed")
    assert repr(completed).startswith("<Distribution of time_to_first_token of completed calls: 20")
    assert completed.cut() == completed.failed() == 0


def test_the_number_of_values_needed_counts_every_call() -> None:
    """Ten values and ten calls that were given up are twenty values of a p95."""
    snapshot = snapshot_of([*[FAST] * 10, *[CUT_AT_5_S] * 9])

    with pytest.raises(NotEnoughValuesError, match="needs 20 values, there are 19"):
        snapshot.percentile("ttft", 95)
    with pytest.raises(NotEnoughValuesError, match="needs 20 values, there are 19"):
        snapshot.percentile_bounds("ttft", 95)


def test_calls_without_any_value_have_bounds_and_no_mean() -> None:
    """The mean is that of the values seen, and there are none."""
    values = snapshot_of([CUT_AT_5_S] * 3).metric("ttft")

    assert values.percentile_bounds(50) == (pytest.approx(5_000, rel=0.001), math.inf)
    with pytest.raises(EmptyHistogramError, match="3 of 3 calls were given up before it"):
        values.mean()


def test_the_fraction_above_a_limit() -> None:
    """A call that was given up before the limit may have missed it."""
    slow = call(900, outcome=Outcome.CANCELLED)
    values = snapshot_of([*[FAST] * 7, slow, call(5, outcome=Outcome.ERROR), FAST]).metric("ttft")

    assert values.fraction_above(500) == 0.2
    assert values.fraction_above_bounds(1_000) == (0.1, 0.2)
    with pytest.raises(
        UndeterminedPercentileError, match=r"above 1000 ms is from 0\.1 to 0\.2: 1 of"
    ):
        values.fraction_above(1_000)


def test_a_segment_in_progress_is_a_lower_bound() -> None:
    """Its length is in the values seen, and decides no percentile by itself."""
    snapshot = snapshot_of([*[FAST] * 18, *[CUT_AT_5_S] * 2])
    values = snapshot.segment("server_wait")

    assert (values.count(), values.cut(), values.max()) == (20, 2, 5_000)
    assert values.percentile(50) == pytest.approx(100, rel=0.001)
    assert values.percentile_bounds(95) == (pytest.approx(5_000, rel=0.001), math.inf)
    with pytest.raises(UndeterminedPercentileError, match="2 of 20 values were cut short"):
        values.percentile(95)
    assert snapshot.segments() == ("server_wait", "decode")


def test_a_request_does_not_report_the_open_segment_of_its_call() -> None:
    """Its own segment of the same name had ended, and the call reports the one in progress."""
    request = replace(
        call(100, outcome=Outcome.CANCELLED, kind=Kind.REQUEST),
        segments=(Segment("prepare", 0, 7), Segment("send", 7, 9), Segment("prepare", 9, 100)),
        duration_ns=100,
        reports=(Segment("prepare", 0, 7),),
    )
    snapshot = snapshot_of([request])

    assert {key.metric for key in snapshot.series if key.segment} == {"segment"}
    stage = replace(request, kind=Kind.STAGE, reports=(Segment("prepare", 9, 100),))
    assert {key.metric for key in snapshot_of([stage]).series if key.segment} == {
        "segment",
        "segment" + AT_LEAST,
    }


def test_segments_of_given_up_calls_still_sum_to_their_durations() -> None:
    """The segment in progress is a value too, so that dashboards of segments stay whole."""
    snapshot = snapshot_of([FAST, CUT_AT_5_S, call(7, ttft_ms=5, outcome=Outcome.ERROR)])
    sums = {
        metric: sum(
            series.histogram.sum_ns
            for key, series in snapshot.series.items()
            if key.metric == metric
        )
        for metric in ("segment", "duration")
    }

    assert sums["segment"] == sums["duration"]


def test_a_metric_that_grows_is_a_bound_while_its_stream_was_open() -> None:
    """The longest gap of a stream that was cut includes the gap in which it was cut."""
    metrics = {"chunk_gap_max": 10, "stall_duration": 0}
    cut = replace(
        call(5_000, ttft_ms=100, outcome=Outcome.CANCELLED, metrics_ms=metrics),
        segments=(
            Segment("server_wait", 0, 100 * NS_PER_MS),
            Segment("decode", 100 * NS_PER_MS, 200 * NS_PER_MS),
            Segment("server_wait", 200 * NS_PER_MS, 5_000 * NS_PER_MS),
        ),
        chunk_gaps=(MetricValue(10 * NS_PER_MS),) * 10,
    )
    snapshot = snapshot_of([*[call(300, ttft_ms=100, metrics_ms=metrics)] * 2, cut])

    longest = snapshot.metric("chunk_gap_max")
    assert (longest.count(), longest.cut()) == (2, 1)
    assert longest.percentile_bounds(100) == (pytest.approx(4_800, rel=0.001), math.inf)
    gaps = snapshot.metric("chunk_gap")
    assert (gaps.count(), gaps.cut(), gaps.failed()) == (10, 1, 0)
    assert snapshot.percentile("ttft", 100) == 100


def test_a_stream_that_failed_has_one_gap_that_never_ended() -> None:
    """The gaps before it are exact."""
    failed = replace(
        call(300, ttft_ms=100, outcome=Outcome.TRUNCATED), chunk_gaps=(MetricValue(7),) * 3
    )
    gaps = snapshot_of([failed]).metric("chunk_gap")

    assert (gaps.count(), gaps.cut(), gaps.failed()) == (3, 0, 1)
    assert gaps.percentile(50, unit="ns") == 7


def test_fluidity_of_a_failed_stream_is_not_known() -> None:
    """More is better, so a failure must not rank last: the best value ranks there."""
    known = replace(FAST, metrics={**FAST.metrics, "fluidity": MetricValue(900_000_000)})
    failed = replace(known, outcome=Outcome.ERROR)
    values = snapshot_of([known, known, failed]).metric("fluidity")

    assert (values.cut(), values.failed()) == (0, 1)
    assert values.percentile_bounds(50) == pytest.approx((0.9, 0.9), rel=0.001)
    assert values.percentile_bounds(0)[0] == 0


def test_a_completed_stream_without_a_token_never_has_one() -> None:
    """It ranks last; a call that does not stream is not in the population."""
    silent, whole = call(200), call(200, streamed=False)
    snapshot = snapshot_of([*[FAST] * 2, silent, whole])

    values = snapshot.metric("ttft")
    assert (values.count(), values.failed()) == (2, 1)
    assert values.percentile_bounds(100) == (math.inf, math.inf)
    assert snapshot.metric("time_per_output_token").failed() == 0


def test_values_past_the_cardinality_limit_keep_their_outcome() -> None:
    """In the overflow series, a value and a lower bound stay apart."""
    records = [
        replace(record, attributes={"model": f"m{number}"})
        for number in range(30)
        for record in (FAST, CUT_AT_5_S)
    ]
    few, many = snapshot_of(records, cardinality_limit=4), snapshot_of(records)

    overflow = {key.subject.outcome for key in few.series if key.subject.overflow}
    assert overflow == {"completed", "cancelled"}
    for metric in ("ttft", "duration"):
        for percentile in (50, 90):
            both = [each.percentile_bounds(metric, percentile) for each in (few, many)]
            assert both[0] == both[1]


def test_files_of_older_releases_do_not_show_who_was_given_up() -> None:
    """A call that was cut may have had to wait for its token, or may not have streamed."""
    cut_later = call(900, ttft_ms=100, outcome=Outcome.CANCELLED)
    older = without_bounds(snapshot_of([*[FAST] * 18, *[CUT_AT_5_S] * 2, cut_later]))

    assert older.percentile("ttft", 50) == pytest.approx(100, rel=0.001)
    assert older.metric("ttft").cut() == 2
    with pytest.raises(
        UndeterminedPercentileError, match="p95 of time_to_first_token is not known"
    ):
        older.percentile("ttft", 95)
    assert older.percentile("ttft", 95, outcome="completed", default=None) is None
    assert older.percentile("duration", 50) == pytest.approx(300, rel=0.001)


def test_calls_that_do_not_stream_are_known_in_newer_files() -> None:
    """They were given up, but have no first token; each has a segment in which it was left."""
    whole = call(5_000, outcome=Outcome.CANCELLED, streamed=False)
    snapshot = replace(snapshot_of([*[FAST] * 18, *[whole] * 2]), recorders=frozenset())

    assert snapshot.metric("ttft").cut() == 0
    assert snapshot.percentile("ttft", 90) == pytest.approx(100, rel=0.001)


def test_requests_of_older_files_are_not_described_either() -> None:
    """In newer files, a request that was given up inside its call has its segment there."""
    shown = {"time_to_first_visible_token": 100}
    whole = call(kind=Kind.REQUEST, metrics_ms=shown)
    cut = replace(call(outcome=Outcome.CANCELLED, kind=Kind.REQUEST, streamed=False), reports=())
    inside = call(outcome=Outcome.CANCELLED, streamed=False)
    newer = replace(snapshot_of([whole, cut, inside]), recorders=frozenset())

    assert newer.where(kind="request").metric("ttfv").cut() == 0
    assert without_bounds(newer).metric("ttfv", kind="request").cut() == 1


def test_a_correction_for_coordinated_omission_changes_the_percentiles() -> None:
    """A lower bound is corrected as the values are."""
    values = snapshot_of([*[FAST] * 9, call(1_000, ttft_ms=1_000)]).metric("ttft")
    corrected = values.corrected_for_coordinated_omission(100)

    assert values.percentile(90) == pytest.approx(100, rel=0.001)
    assert corrected.percentile(90) == pytest.approx(900, rel=0.001)
    bounded = snapshot_of([*[FAST] * 9, call(1_000, outcome=Outcome.CANCELLED)]).metric("ttft")
    assert bounded.corrected_for_coordinated_omission(100).cut() == 10


def test_older_and_newer_files_can_be_merged() -> None:
    """Only the calls of the older file are not described."""
    newer = replace(snapshot_of([*[FAST] * 9, CUT_AT_5_S]), recorders=frozenset())
    both = newer.merge(without_bounds(snapshot_of([*[FAST] * 9, CUT_AT_5_S])))

    values = both.metric("ttft")
    assert (values.count(), values.cut()) == (18, 2)
    assert values.percentile_bounds(95) == (pytest.approx(100, rel=0.001), math.inf)
    assert values.percentile_bounds(100) == (pytest.approx(5_000, rel=0.001), math.inf)


def test_files_keep_lower_bounds(tmp_path: Path) -> None:
    """Each series has a tag of its own, and merging two files adds them up."""
    snapshot = snapshot_of([*[FAST] * 18, *[CUT_AT_5_S] * 2])
    path = tmp_path / "calls.hlog"
    with HistogramLogWriter(path) as writer:
        write_interval(writer, replace(snapshot, start_epoch_ns=0, end_epoch_ns=10**9))
        write_interval(writer, replace(snapshot, start_epoch_ns=10**9, end_epoch_ns=2 * 10**9))

    assert "Tag=time_to_first_token.at_least?" in path.read_text()
    one, other = read_snapshots(path)
    assert one.series.keys() == snapshot.series.keys()
    both = one.merge(other)
    assert (both.count(), both.metric("ttft").cut()) == (40, 4)
    assert both.percentile_bounds("ttft", 95) == snapshot.percentile_bounds("ttft", 95)
    assert both.diff(one).metric("ttft").cut() == 2


def test_rows_show_lower_bounds_under_their_own_name() -> None:
    """They have the unit of their metric; a user asks for the metric itself."""
    cut = replace(CUT_AT_5_S, metrics={})
    rows = snapshot_of([cut]).to_dict(unit="s")["series"]

    units = {row["metric"]: row["unit"] for row in rows}
    assert units["time_to_first_token.at_least"] == "s"
    assert units["stall_count.at_least"] == "1"
    assert units["fluidity.at_least"] == "ratio"
    [row] = [each for each in rows if each["metric"] == "time_to_first_token.at_least"]
    assert (row["max"], row["attributes"]["outcome"]) == (5, "cancelled")


_OUTCOMES = st.sampled_from([Outcome.COMPLETED, *sorted(CUT), *sorted(FAILURES)])
_RECORDS = st.lists(
    st.builds(
        call,
        st.integers(50, 60),
        ttft_ms=st.one_of(st.none(), st.integers(1, 50)),
        outcome=_OUTCOMES,
        streamed=st.sampled_from([True, True, False, None]),
    ),
    min_size=1,
    max_size=40,
)


@given(_RECORDS, st.sampled_from([1, 50, 90, 95]), st.sampled_from(["duration", "ttft", "tpot"]))
def test_histograms_answer_as_the_records_do(
    records: list[RequestRecord], percentile: float, asked: str
) -> None:
    """The interval from the histograms is the one from the records, to 1/1024."""
    values = snapshot_of(records).metric(asked)
    known = [each for record in records if (each := record.censored(values.name)) is not None]

    if not known:
        with pytest.raises(EmptyHistogramError):
            values.percentile_bounds(percentile)
        return
    if len(known) < values_needed(percentile):
        with pytest.raises(NotEnoughValuesError, match=rf"there are {len(known)}\n"):
            values.percentile_bounds(percentile)
        return
    low, high = values.percentile_bounds(percentile, unit="ns")
    assert (low, high) == pytest.approx(tuple(percentile_bounds(known, percentile)), rel=0.001)
