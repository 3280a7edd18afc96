"""A question that could be misunderstood is an error, which names the question that was meant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.metrics import MetricValue
from latspan._model.recording import Recorder, RequestRecord, Snapshot, empty_snapshot
from latspan._model.segments import Kind, Outcome, Segment
from latspan._model.tokens import TokenCounts, TokenSource
from latspan.errors import ConfigError, EmptyHistogramError, UnknownNameError
from latspan.testing import ManualClock

NO_SEGMENTS: tuple[Segment, ...] = ()


def request(number: int = 0) -> RequestRecord:
    """Return a request that waits 106 ms before its call."""
    return RequestRecord(
        name="answer",
        kind=Kind.REQUEST,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=300 * NS_PER_MS,
        segments=(Segment("prepare", 0, 106 * NS_PER_MS), Segment("decode", 106, 300)),
        metrics={"time_to_first_visible_token": MetricValue(162 * NS_PER_MS)},
        attributes={"tenant": f"t{number}"},
        reports=(Segment("prepare", 0, 106 * NS_PER_MS),),
    )


def call(model: str = "gpt-4o-mini", **attributes: str) -> RequestRecord:
    """Return a call whose first token came after 56 ms."""
    return RequestRecord(
        name=f"chat {model}",
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=194 * NS_PER_MS,
        segments=(Segment("decode", 0, 194 * NS_PER_MS),),
        metrics={
            "time_to_first_token": MetricValue(56 * NS_PER_MS),
            "time_to_first_visible_token": MetricValue(56 * NS_PER_MS),
        },
        tokens=TokenCounts(input=10, output=3000, source=TokenSource.PROVIDER),
        attributes={"model": model, **attributes},
    )


def stage(name: str) -> RequestRecord:
    """Return a stage of 3 ms."""
    return RequestRecord(
        name=name,
        kind=Kind.STAGE,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=3 * NS_PER_MS,
        segments=(Segment(name, 0, 3 * NS_PER_MS),),
    )


def snapshot_of(*records: RequestRecord) -> Snapshot:
    recorder = Recorder(ManualClock())
    for record in records:
        recorder.record(record)
    return recorder.snapshot()


SERVED = snapshot_of(*(record for number in range(20) for record in (request(number), call())))


@pytest.mark.parametrize(
    ("fraction", "meant"), [(0.95, "95"), (0.5, "50"), (0.999, "99.9"), (0.07, "7")]
)
def test_a_fraction_is_no_percentile(fraction: float, meant: str) -> None:
    """The hint has the percentile; percentiles below 1 can be read from the histogram."""
    durations = SERVED.metric("duration")

    for ask in (SERVED.percentile, empty_snapshot().percentile):
        with pytest.raises(ConfigError, match=f"is a fraction.*\nhint: use {meant} for p{meant}"):
            ask("duration", fraction, default=None)
    assert durations.percentile(0) == durations.percentile(1) == 300
    assert durations.histogram.value_at_percentile(0.5) == 300 * NS_PER_MS


def test_the_first_token_of_a_call_is_not_answered_for_a_request() -> None:
    """A question without a kind is about requests, whose users wait for more than the call."""
    with pytest.raises(UnknownNameError) as caught:
        SERVED.percentile("ttft", 95)

    assert str(caught.value) == (
        "time_to_first_token is recorded for calls, not for requests\n"
        'hint: use kind="call" for the wait since the start of each call, or'
        ' "time_to_first_visible_token" for the wait since the start of the request'
    )
    assert SERVED.percentile("ttft", 95, kind="call") == pytest.approx(56, rel=0.001)
    assert SERVED.percentile("ttfv", 95) == pytest.approx(162, rel=0.001)
    assert SERVED.percentile("ttfv", 95, kind="call") == pytest.approx(56, rel=0.001)


def test_a_default_does_not_hide_a_question_about_the_wrong_kind() -> None:
    """It stands for missing values, not for a question that is mistaken."""
    with pytest.raises(UnknownNameError, match='hint: use kind="call"'):
        SERVED.percentile("output_tokens", 95, default=None)


def test_an_asked_kind_without_the_metric_has_no_values() -> None:
    """The error names the kind that has it, and there is nothing to count."""
    ttft = SERVED.metric("ttft", kind="request")

    assert ttft.count() == 0
    with pytest.raises(
        EmptyHistogramError,
        match='no values of time_to_first_token for requests\nhint: use kind="call" for the wait',
    ):
        ttft.percentile(95)
    with pytest.raises(EmptyHistogramError, match=r'for requests\nhint: use kind="call"$'):
        SERVED.segment("decode", kind="request").mean()


def test_a_filter_chooses_the_kind_that_has_it() -> None:
    """Requests have no model, so a question about a model is about calls."""
    assert SERVED.percentile("ttft", 95, model="gpt-4o-mini") == pytest.approx(56, rel=0.001)
    assert SERVED.where(model="gpt-4o-mini").metric("ttft").kind is Kind.CALL
    assert SERVED.count(model="gpt-4o-mini") == 20
    with pytest.raises(UnknownNameError, match=r"requests have no attribute 'model'\nhint: .*call"):
        SERVED.count(kind="request", model="gpt-4o-mini")


def test_a_segment_is_the_same_interval_on_every_timeline() -> None:
    """So it is answered from the kind that recorded it."""
    assert SERVED.segment("decode").kind is Kind.CALL
    assert SERVED.segment("prepare").kind is Kind.REQUEST


def test_a_value_that_was_never_recorded_is_refused() -> None:
    """The hint lists those that were, the nearest first, and not more than five."""
    models = ("gpt-4o", "gpt-4o-mini", "llama", "qwen", "mistral", "gemma", "phi")
    snapshot = snapshot_of(*map(call, models))

    with pytest.raises(UnknownNameError) as caught:
        snapshot.count(model="gpt-4o-mni")

    message, _, hint = str(caught.value).partition("\nhint: ")
    assert message == "model 'gpt-4o-mni' was never recorded"
    assert hint.startswith("recorded are 'gpt-4o-mini', 'gpt-4o', ")
    assert hint.endswith(" and 2 more")
    for ask in (
        lambda: snapshot.where(model="gpt-4o-mni"),
        lambda: snapshot.metric("ttft", model="gpt-4o-mni"),
        lambda: snapshot.segment("decode", model="gpt-4o-mni"),
    ):
        with pytest.raises(UnknownNameError, match="was never recorded"):
            ask()


def test_an_attribute_that_no_series_has_is_refused() -> None:
    """Zero calls of a tenant would be an answer, but no call has a tenant."""
    with pytest.raises(UnknownNameError) as caught:
        snapshot_of(call()).count(tenant="acme")

    assert str(caught.value) == (
        "no recorded series has the attribute 'tenant'\n"
        "hint: attributes recorded: kind, model, outcome, segment, side, source"
    )


def test_an_attribute_of_other_metrics_is_refused() -> None:
    """The hint names the metrics that have it."""
    failed = replace(
        call(), outcome=Outcome.ERROR, convention={"model": "m", "error_type": "TimeoutError"}
    )
    snapshot = snapshot_of(call(), failed)

    with pytest.raises(
        UnknownNameError,
        match=r"duration has no attribute 'error_type'\nhint: .*gen_ai\.client\.operation",
    ):
        snapshot.count(error_type="TimeoutError")
    with pytest.raises(UnknownNameError, match=r'hint: use segment\("decode"\)'):
        snapshot.percentile("ttft", 50, segment="decode")


def test_zero_is_an_answer_where_the_value_is_known() -> None:
    """Of an outcome, of a value that occurred elsewhere, and before anything was recorded."""
    snapshot = snapshot_of(call("a", tenant="x"), call("b", tenant="y"))

    assert snapshot.count(outcome="error") == 0
    assert snapshot.count(overflow="true") == 0
    assert snapshot.count(model="a", tenant="y") == 0
    assert snapshot.where(model="a").count(tenant="y") == 0
    assert snapshot.group_by("model")["a"].count(model="b") == 0
    assert snapshot.diff(snapshot).count(tenant="x") == 0
    assert snapshot.where(kind="request").series == {}
    assert empty_snapshot().count(tenant="x") == 0


def test_a_boolean_or_a_number_is_compared_as_its_text() -> None:
    """Series hold text, and an application sets what it likes."""
    snapshot = snapshot_of(call("a", premium="True", tier="2"), call("b", premium="False"))

    assert snapshot.count(premium=True) == 1
    assert snapshot.where(premium=False).group_by("model").keys() == {"b"}
    assert snapshot.percentile("duration", 50, default=None, tier=2) is None
    assert snapshot.segment("decode", tier=2).count() == 1
    served = snapshot_of(replace(call(), convention={"server_port": "443"}))
    assert served.where(server_port=443).series
    with pytest.raises(UnknownNameError, match="tier '3' was never recorded"):
        snapshot.count(tier=3)


def test_a_misspelt_value_of_a_fixed_set_is_refused_at_once() -> None:
    """Whether or not anything was recorded, and with a default too."""
    for snapshot in (SERVED, empty_snapshot()):
        with pytest.raises(UnknownNameError, match="no outcome 'eror'\nhint: one of 'error'"):
            snapshot.percentile("duration", 95, default=None, outcome="eror")
        with pytest.raises(UnknownNameError, match="no kind 'calls'\nhint: one of 'call'"):
            snapshot.where(kind="calls")


def test_a_default_stands_for_missing_values() -> None:
    """For too few values, for none, and for a value that was never recorded; names still raise."""
    snapshot = snapshot_of(*[call()] * 19)

    assert snapshot.percentile("ttft", 95, default=None) is None
    assert snapshot.percentile("tpot", 95, default=-1.0) == -1
    assert snapshot.percentile("ttft", 50, model="other", default=None) is None
    assert snapshot.percentile("ttft", 50, tenant="other", default=None) is None
    assert snapshot.segment("queue").percentile(50, default=None) is None
    assert snapshot.percentile("ttft", 90, default=None) == pytest.approx(56, rel=0.001)
    for mistake in (
        lambda: snapshot.percentile("tttft", 95, default=None),
        lambda: snapshot.percentile("ttft", 95, kind="calls", default=None),
        lambda: snapshot.percentile("ttft", 95, modell="m", default=None),
        lambda: snapshot.metric("tpot").percentile(95, unit="min", default=None),  # pyright: ignore[reportArgumentType, reportCallIssue]
    ):
        with pytest.raises(UnknownNameError):
            mistake()
    with pytest.raises(ConfigError):
        snapshot.percentile("ttft", 101, default=None)


def test_a_stage_is_asked_for_as_a_segment() -> None:
    """Also if it is misspelt, and if it is one of latspan's own that was not recorded."""
    snapshot = snapshot_of(stage("rerank"))

    with pytest.raises(UnknownNameError) as caught:
        snapshot.percentile("rerank", 95)
    assert str(caught.value) == "no metric 'rerank'\nhint: use segment(\"rerank\")"
    with pytest.raises(UnknownNameError, match=r'did you mean segment\("rerank"\)\?'):
        snapshot.metric("reranc")
    with pytest.raises(UnknownNameError, match=r'use segment\("prefill"\)'):
        snapshot.metric("prefill")
    with pytest.raises(UnknownNameError, match="did you mean 'ttft'"):
        snapshot.metric("tttft")


def test_a_metric_is_not_asked_for_as_a_segment() -> None:
    """The error names the other question."""
    with pytest.raises(EmptyHistogramError, match=r"'ttft' is a metric: use metric\(\"ttft\"\)"):
        SERVED.segment("ttft").percentile(50)
    with pytest.raises(EmptyHistogramError, match=r'did you mean segment\("decode"\)\? segments'):
        SERVED.segment("decod").percentile(50)


def test_metrics_that_name_their_kind_are_answered() -> None:
    """A metric of the conventions is one of calls by definition, and a flag is only counted."""
    measured = replace(
        call(), convention={"model": "m"}, metrics={"evidence_rejected": MetricValue(1)}
    )
    snapshot = snapshot_of(request(), measured)

    assert snapshot.metric("gen_ai.client.operation.duration").count() == 1
    assert snapshot.metric("evidence_rejected").count() == 1


SCOPE_HINT = (
    "put the calls and stages into `with latspan.attributes(tenant=…):`;"
    " latspan.annotate() sets attributes of the request only"
)


def test_an_attribute_of_the_request_only_has_its_remedy_in_the_hint() -> None:
    """``latspan.annotate(tenant=…)`` sets it on the request, not on its stages and calls."""
    snapshot = snapshot_of(request(1), call(), stage("rerank"))

    with pytest.raises(UnknownNameError) as of_stage:
        snapshot.segment("rerank", tenant="t1")
    with pytest.raises(UnknownNameError) as of_call:
        snapshot.metric("ttft", kind="call", tenant="t1")
    with pytest.raises(UnknownNameError) as of_kind:
        snapshot.count(kind="call", tenant="t1")

    assert of_stage.value.message == "no value of rerank has a tenant"
    assert of_stage.value.hint == SCOPE_HINT
    assert of_call.value.hint is not None
    assert of_call.value.hint.startswith(f"{SCOPE_HINT}; metrics with it: duration")
    assert of_kind.value.hint == f'use kind="request", or {SCOPE_HINT}'


def test_the_segments_of_a_kind_are_plain_text() -> None:
    """A request records only what its calls and stages do not."""
    snapshot = snapshot_of(request(), call(), stage("rerank"))

    assert repr(snapshot.segments()) == "('prepare', 'decode', 'rerank')"
    assert snapshot.segments(kind="request") == ("prepare",)
    assert snapshot.segments(kind=Kind.CALL) == ("decode",)
    with pytest.raises(UnknownNameError):
        snapshot.segments(kind="calls")


def test_a_value_that_a_segment_lacks_has_the_others_in_the_hint() -> None:
    """The segment was recorded for another model."""
    snapshot = snapshot_of(call(), replace(call("large"), segments=()))

    with pytest.raises(EmptyHistogramError) as caught:
        snapshot.segment("decode", model="large").mean()

    assert caught.value.hint == "the values of model recorded for decode: 'gpt-4o-mini'"


def test_an_own_attribute_before_the_first_request_has_no_values_yet() -> None:
    """The process may have configured it: series have it from the first request on."""
    with pytest.raises(UnknownNameError) as caught:
        snapshot_of().group_by("prompt.version")

    assert caught.value.message == "no attribute 'prompt.version': no request has been recorded yet"
    assert caught.value.hint is not None
    assert "LATSPAN_SERIES_ATTRIBUTES in a test" in caught.value.hint


def test_a_part_without_values_knows_the_attributes_of_the_whole() -> None:
    """An own attribute does not become unknown because no failed request was recorded."""
    snapshot = snapshot_of(replace(call(), attributes={"prompt.version": "7"}))

    assert snapshot.where(outcome="error").group_by("prompt.version") == {}
