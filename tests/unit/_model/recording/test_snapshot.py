"""Snapshots answer queries by readable names, and raise an error if a value is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.metrics import MetricValue
from latspan._model.recording import Recorder, RequestRecord, Snapshot, empty_snapshot
from latspan._model.segments import Kind, Outcome, Segment, Source
from latspan._model.tokens import TokenCounts, TokenSource
from latspan.errors import (
    ConfigError,
    EmptyHistogramError,
    NotEnoughValuesError,
    UnknownNameError,
)
from latspan.testing import ManualClock

RERANK = (Segment("rerank", 0, 3 * NS_PER_MS),)


def call(
    duration_ms: int = 100,
    *,
    kind: Kind = Kind.CALL,
    model: str = "m",
    source: Source = Source.MEASURED,
    reports: tuple[Segment, ...] | None = None,
) -> RequestRecord:
    duration_ns = duration_ms * NS_PER_MS
    return RequestRecord(
        name="chat m",
        kind=kind,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=duration_ns,
        segments=(
            Segment("rerank", 0, duration_ns // 4),
            Segment("queue", duration_ns // 4, duration_ns // 2, source),
            Segment("send", duration_ns // 2, duration_ns),
        ),
        metrics={"time_to_first_token": MetricValue(duration_ns // 2, source)},
        chunk_gaps=(MetricValue(5 * NS_PER_MS), MetricValue(7 * NS_PER_MS, Source.ESTIMATED)),
        tokens=TokenCounts(input=10, output=3000, source=TokenSource.PROVIDER),
        attributes={"model": model},
        reports=reports,
    )


def snapshot_of(*records: RequestRecord) -> Snapshot:
    recorder = Recorder(ManualClock())
    for record in records:
        recorder.record(record)
    return recorder.snapshot()


def test_a_percentile_is_read_by_alias_and_unit() -> None:
    """Metric names have aliases; the default unit is the millisecond, others can be requested."""
    snapshot = snapshot_of(*(call(duration_ms) for duration_ms in range(1, 21)))

    assert snapshot.percentile("ttft", 95) == pytest.approx(9.5, rel=0.001)
    assert snapshot.percentile("duration", 95, unit="s") == pytest.approx(0.019, rel=0.001)


def test_a_percentile_of_too_few_values_is_refused() -> None:
    """Nineteen values are not enough for a p95."""
    snapshot = snapshot_of(*[call()] * 19)

    with pytest.raises(NotEnoughValuesError, match="p95 of time_to_first_token needs 20 values"):
        snapshot.percentile("ttft", 95)


def test_a_segment_reports_its_sources() -> None:
    """Estimated values can be counted separately, and queried alone."""
    snapshot = snapshot_of(call(), call(source=Source.ESTIMATED), call(source=Source.ESTIMATED))

    assert snapshot.segment("queue").sources == {"measured": 1, "estimated": 2}
    assert snapshot.segment("queue", source="estimated").count() == 2


def test_every_chunk_gap_is_one_value() -> None:
    """A request has one value per gap, each with its own source."""
    gaps = snapshot_of(call()).metric("chunk_gap")

    assert gaps.sources == {"measured": 1, "estimated": 1}
    assert (gaps.min(), gaps.max(), gaps.mean()) == (5, 7, 6)


def test_counts_have_no_unit_of_time() -> None:
    """A token count is returned unchanged for any requested unit."""
    tokens = snapshot_of(call(), call()).metric("output_tokens")

    assert (tokens.percentile(50, unit="s"), tokens.mean()) == (3000, 3000)
    assert (tokens.fraction_above(2900.5), tokens.fraction_above(3000)) == (1, 0)
    assert tokens.sources == {TokenSource.PROVIDER: 2}


def test_ratios_are_returned_as_ratios() -> None:
    """This holds for any requested unit, and for limits."""
    smooth, rough = (
        replace(call(), metrics={"fluidity": MetricValue(held)})
        for held in (1_000_000_000, 250_000_000)
    )
    fluidity = snapshot_of(smooth, smooth, smooth, rough).metric("fluidity")

    assert (fluidity.min(), fluidity.max(unit="s"), fluidity.mean()) == (0.25, 1, 0.8125)
    assert fluidity.percentile(50) == pytest.approx(1, rel=0.001)
    assert (fluidity.fraction_above(0.25), fluidity.fraction_above(0.2)) == (0.75, 1)


def test_unknown_token_counts_are_not_recorded() -> None:
    """Unknown is not zero."""
    assert snapshot_of(call()).metric("reasoning_tokens").count() == 0


def test_fraction_above_takes_the_limit_in_the_given_unit() -> None:
    """One of four requests takes longer than 300 ms."""
    durations = snapshot_of(*(call(ms) for ms in (100, 200, 300, 400))).metric("duration")

    assert durations.fraction_above(300) == durations.fraction_above(0.3, unit="s") == 0.25


def test_queries_use_the_outermost_kind_by_default() -> None:
    """Users wait for the request; inner kinds must be requested."""
    snapshot = snapshot_of(call(10), call(20), call(50, kind=Kind.REQUEST, reports=RERANK))

    assert snapshot.count() == 1
    assert snapshot.count(kind=Kind.CALL) == snapshot.count(kind="call") == 2
    assert snapshot.percentile("duration", 50, kind="call") == pytest.approx(10, rel=0.001)
    assert snapshot.segment("rerank").count() == 1
    assert snapshot.segment("queue").count() == 2


def test_a_request_reports_only_what_its_calls_do_not() -> None:
    """Its calls record gaps, tokens and segments that are not in ``reports``."""
    snapshot = snapshot_of(call(kind=Kind.REQUEST, reports=RERANK))

    assert snapshot.segments() == ("rerank",)
    assert sorted({key.metric for key in snapshot.series}) == [
        "duration",
        "segment",
        "time_to_first_token",
        "time_to_first_visible_token.at_least",
    ]


def test_queries_filter_by_attributes() -> None:
    """Only series with equal attributes are counted, of an inner kind if only that one matches."""
    snapshot = snapshot_of(call(model="a"), call(model="b"), call(kind=Kind.REQUEST, model="b"))

    assert snapshot.count(model="a") == 1
    assert snapshot.count(kind="call", model="b", outcome="completed") == 1
    assert snapshot.count(model="a", outcome="error") == 0


def test_segments_are_listed_in_order_and_followed_by_stages() -> None:
    """The client's segments are listed in the order in which a request passes through them."""
    assert snapshot_of(call()).segments() == ("send", "queue", "rerank")


def test_the_error_for_an_unknown_segment_lists_the_recorded_ones() -> None:
    prefill = snapshot_of(call()).segment("prefil")

    assert prefill.count() == 0
    with pytest.raises(EmptyHistogramError, match="hint: segments recorded: send, queue, rerank"):
        prefill.percentile(50)


def test_a_metric_without_values_has_no_mean() -> None:
    """The hint of the error lists the recorded metrics."""
    with pytest.raises(EmptyHistogramError, match="hint: metrics recorded: chunk_gap, duration"):
        snapshot_of(call()).metric("tpot").mean()


def test_unknown_names_are_refused_with_suggestions() -> None:
    """A typing error is never read as a zero."""
    snapshot = snapshot_of(call())

    with pytest.raises(UnknownNameError, match="did you mean 'ttft'"):
        snapshot.metric("ttftt")
    with pytest.raises(UnknownNameError, match="did you mean 'input_tokens'"):
        snapshot.metric("input_token")
    with pytest.raises(UnknownNameError, match="one of duration"):
        snapshot.metric("xyzzy")
    with pytest.raises(
        UnknownNameError, match="series have error_type, inference_path, kind, model"
    ):
        snapshot.count(modell="m")
    with pytest.raises(UnknownNameError, match="one of request, inner_request, call, http, stage"):
        snapshot.count(kind="calls")


def test_merging_two_snapshots_adds_their_values() -> None:
    """The time spans are joined, and neither snapshot changes."""
    clock = ManualClock()
    recorder = Recorder(clock)
    recorder.record(call(10))
    first = recorder.swap_interval()
    clock.advance(5)
    recorder.record(call(20))
    second = recorder.swap_interval()

    both, reversed_both = first.merge(second), second.merge(first)

    assert (first.count(), second.count(), both.count()) == (1, 1, 2)
    assert (first.start_epoch_ns, second.end_epoch_ns) == (
        both.start_epoch_ns,
        both.end_epoch_ns,
    )
    assert both.series == reversed_both.series


def test_the_difference_of_two_snapshots_holds_the_values_in_between() -> None:
    """Counts and sums include only the later values."""
    clock = ManualClock()
    recorder = Recorder(clock)
    recorder.record(call(10))
    before = recorder.snapshot()
    clock.advance(5)
    recorder.record(call(30))
    recorder.record(call(70, model="other"))

    between = recorder.snapshot().diff(before)

    assert (between.count(), between.count(model="other")) == (2, 1)
    assert between.metric("duration").mean() == 50
    assert between.percentile("duration", 0, model="m") == pytest.approx(30, rel=0.001)
    assert between.start_epoch_ns == before.end_epoch_ns == between.end_epoch_ns - 5
    assert recorder.snapshot().diff(recorder.snapshot()).series == {}


def test_an_unrelated_snapshot_is_refused_whatever_it_holds() -> None:
    """Also if no series is in both, and if one was read from a file."""
    restarted, before = snapshot_of(call(model="a")), snapshot_of(call(model="b"))
    unmarked = replace(before, recorders=frozenset())

    for earlier in (before, snapshot_of()):
        with pytest.raises(ConfigError, match="is of another recorder"):
            restarted.diff(earlier)
    with pytest.raises(ConfigError, match="has values that this one does not have"):
        restarted.diff(unmarked)
    assert restarted.merge(before).diff(before).series.keys() == restarted.series.keys()
    assert restarted.merge(unmarked).diff(unmarked).count() == 1
    assert restarted.diff(empty_snapshot()).count() == 1


def test_subtracting_a_later_or_unrelated_snapshot_is_refused() -> None:
    """The hint names the right order; counts never become negative."""
    clock = ManualClock()
    recorder = Recorder(clock)
    earlier = recorder.snapshot()
    recorder.record(call())

    with pytest.raises(ConfigError, match=r"another recorder\nhint: subtract the earlier"):
        snapshot_of(call(5)).diff(recorder.snapshot())
    clock.advance(5)
    recorder.record(call(model="new"))
    with pytest.raises(ConfigError, match=r"later\.diff\(earlier\)"):
        earlier.diff(recorder.snapshot())
    assert earlier.diff(earlier).count() == 0


@given(st.lists(st.integers(1, 500)), st.lists(st.integers(1, 500)))
def test_a_merged_snapshot_can_be_subtracted_again(ours: list[int], theirs: list[int]) -> None:
    """Subtracting one part from a merge returns the other part, series by series."""
    a = snapshot_of(*(call(ms, model=f"m{ms % 3}") for ms in ours))
    b = snapshot_of(*(call(ms, model=f"m{ms % 3}") for ms in theirs))

    left = a.merge(b).diff(b)

    assert left.series.keys() == a.series.keys()
    for key, series in a.series.items():
        assert list(left.series[key].histogram) == list(series.histogram)
        assert left.series[key].histogram.sum_ns == series.histogram.sum_ns


def test_a_series_forgotten_in_between_counts_from_its_new_start() -> None:
    """Its earlier values are not subtracted from its current ones."""
    clock = ManualClock()
    recorder = Recorder(clock)
    recorder.record(call())
    recorder.record(call())
    clock.advance(10)
    recorder.swap_interval()
    earlier = recorder.snapshot()
    clock.advance(10)
    recorder.forget_idle(recorder.snapshot().end_epoch_ns)
    recorder.swap_interval()
    recorder.record(call())

    assert recorder.snapshot().diff(earlier).count() == 1


def test_a_snapshot_can_be_filtered_and_grouped() -> None:
    """By any attribute of its series; series without the attribute are grouped under ``None``."""
    snapshot = snapshot_of(call(model="a"), call(model="b"), call(model="b"))

    by_model = snapshot.group_by("model")

    assert {name: part.count() for name, part in by_model.items()} == {"b": 2, "a": 1}
    assert list(by_model) == ["b", "a"]
    assert snapshot.where(model="b").segments() == snapshot.segments()
    assert snapshot.where(model="b", kind="call").count() == 2
    assert list(snapshot.group_by("tenant")) == [None]
    for question in (lambda: snapshot.where(modell="b"), lambda: snapshot.group_by("modell")):
        with pytest.raises(UnknownNameError, match="no attribute 'modell'"):
            question()


def test_no_group_is_empty() -> None:
    """The conventions' metrics have no outcome, but there is no request without one."""
    calls = [replace(call(model=model), convention={"model": model}) for model in "ab"]
    snapshot = snapshot_of(*calls, replace(call(), outcome=Outcome.ERROR))

    by_outcome = snapshot.group_by("outcome")

    assert {name: part.count() for name, part in by_outcome.items()} == {"completed": 2, "error": 1}
    assert None in snapshot_of(call(), replace(call(), attributes={})).group_by("model")
    assert {name for name, _ in snapshot.group_by("segment").items()} == {
        None,
        "rerank",
        "queue",
        "send",
    }


def test_a_snapshot_and_a_distribution_have_a_short_text() -> None:
    """With the number of values, the kind, and no percentile that has too few values."""
    snapshot = snapshot_of(
        *(call(ms) for ms in range(1, 21)), call(50, kind=Kind.REQUEST, reports=RERANK)
    )

    assert repr(snapshot) == "<Snapshot of 1 request, 20 calls>"
    assert repr(snapshot_of()) == "<Snapshot of nothing>"
    assert repr(snapshot.where(segment="queue")) == "<Snapshot of 1 series>"
    assert repr(snapshot.metric("duration", kind="call")) == (
        "<Distribution of duration of calls: 20 values,"
        " p50 10.002 ms, p95 19.005 ms, p99 needs 100>"
    )
    assert repr(snapshot.metric("output_tokens", kind="call")) == (
        "<Distribution of output_tokens of calls: 20 values, p50 3,000, p95 3,000, p99 needs 100>"
    )
    assert repr(snapshot.metric("tpot")) == "<Distribution of time_per_output_token: 0 values>"


def test_a_segment_reports_the_fractions_of_its_sources() -> None:
    """The largest fraction comes first."""
    snapshot = snapshot_of(*[call(source=Source.ESTIMATED)] * 3, call())

    assert list(snapshot.segment("queue").source_fractions().items()) == [
        ("estimated", 0.75),
        ("measured", 0.25),
    ]
    assert snapshot.segment("xyzzy").source_fractions() == {}


def test_out_of_range_values_are_counted() -> None:
    """Negative values are counted as rejected, and values above a day as clamped."""
    day_ns = 24 * 3600 * 10**9
    odd = replace(call(), metrics={"time_to_first_token": MetricValue(-1)})
    far = replace(call(), metrics={"time_to_first_token": MetricValue(day_ns + 1)})

    ttft = snapshot_of(odd, far).metric("ttft")

    assert (ttft.count(), ttft.rejected(), ttft.clamped()) == (1, 1, 1)
    assert ttft.max(unit="s") == 24 * 3600


def test_a_spectrum_covers_the_whole_distribution() -> None:
    """From the smallest value to the largest, in the requested unit."""
    spectrum = snapshot_of(*(call(ms) for ms in range(1, 101))).metric("duration").spectrum()

    assert spectrum[-1] == (100.0, 100.0, 100)
    assert (50.0, pytest.approx(50, rel=0.001), 50) in spectrum


def test_correction_for_coordinated_omission_is_visible_in_the_name() -> None:
    """The corrected values are a separate distribution; the recorded ones do not change."""
    durations = snapshot_of(call(10), call(100)).metric("duration")

    corrected = durations.corrected_for_coordinated_omission(25)

    assert (durations.count(), corrected.count()) == (2, 5)
    assert corrected.name == "duration (corrected for coordinated omission)"


def test_the_conventions_metrics_have_their_own_attributes() -> None:
    """Only calls with the conventions' attributes have these metrics."""
    convention = {
        "operation": "chat",
        "provider": "openai",
        "model": "m",
        "server_address": "api.test",
        "server_port": "443",
    }
    plain, streamed = (
        call(),
        replace(
            call(),
            convention=convention,
            output_chunk_gaps_ns=(1_000, 2_000),
            metrics={"time_to_first_chunk": MetricValue(7)},
        ),
    )
    failed = replace(call(), convention={**convention, "error_type": "500"})

    snapshot = snapshot_of(plain, streamed, failed)

    duration = "gen_ai.client.operation.duration"
    assert snapshot.metric(duration).count() == 2
    assert snapshot.metric(duration, error_type="500").count() == 1
    assert snapshot.metric("gen_ai.client.operation.time_to_first_chunk", **convention).count() == 1
    assert snapshot.metric("gen_ai.client.operation.time_per_output_chunk").count() == 2
    usage = "gen_ai.client.token.usage"
    assert snapshot.metric(usage, token_type="input").mean() == 10
    assert snapshot.metric(usage, token_type="output").mean() == 3000
    assert {
        key.attribute("inference_path") for key in snapshot.series if key.metric == duration
    } == {None}
