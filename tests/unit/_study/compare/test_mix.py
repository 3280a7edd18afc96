"""The mix of requests: it is no effect of a change, and the strata are compared under one mix."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import pytest

from latspan import Kind, Snapshot
from latspan._base.clock import SystemClock
from latspan._model.recording import Recorder
from latspan._study.compare import (
    Judgement,
    Question,
    Run,
    baseline_document,
    compare,
    run_of_records,
    run_of_snapshot,
    runs_of_baseline,
)
from latspan.errors import RecordingError
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment
from support.comparisons import records, runs
from support.schemas import validated

P50: Final = Question("duration", 50)
P95: Final = Question("duration", 95)


def _scaled(record: RequestRecord, factor: float) -> RequestRecord:
    """Return a call that takes ``factor`` times as long."""

    def at(instant_ns: int) -> int:
        return round(instant_ns * factor)

    return replace(
        record,
        duration_ns=at(record.duration_ns),
        segments=tuple(
            Segment(each.name, at(each.start_ns), at(each.end_ns), each.source)
            for each in record.segments
        ),
        metrics={name: MetricValue(at(each.value)) for name, each in record.metrics.items()},
    )


def by_route(record: RequestRecord) -> RequestRecord:
    """Return a call that is ten times as slow on a slow route."""
    is_slow = record.attributes["route"].startswith("/slow")
    return _scaled(record, 10.0) if is_slow else record


def _sides(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[list[Run], list[Run]]:
    one = runs(0, 3, routes=before, change=by_route)
    return one, runs(50, 3, routes=after, change=by_route)


MOSTLY_SLOW: Final = ("/slow",) * 4 + ("/fast",)
MOSTLY_FAST: Final = ("/fast",) * 4 + ("/slow",)


def test_more_requests_of_a_fast_route_are_no_improvement() -> None:
    """80 % of the requests are slow before and 20 % after; no route changed."""
    found = compare(*_sides(MOSTLY_SLOW, MOSTLY_FAST), P50)
    assert found.judgement not in (Judgement.IMPROVED, Judgement.WORSE)
    assert found.mix is not None
    assert found.mix.changed
    assert found.goal.ratio == pytest.approx(1, abs=0.15)
    assert any("The mix of requests changed" in note for note in found.notes)


def test_a_baseline_keeps_the_mix() -> None:
    """The requests after have single requests, so they are weighted as without a baseline."""
    before, after = _sides(MOSTLY_SLOW, MOSTLY_FAST)
    document = validated(baseline_document(before))
    stored = runs_of_baseline(json.loads(json.dumps(document)), "b.json")

    found = compare(stored, after, P50)

    assert found.mix is not None
    assert found.mix.is_weighted
    assert found.judgement is compare(before, after, P50).judgement
    again = runs_of_baseline(json.loads(json.dumps(baseline_document(stored))), "b.json")
    assert [run.strata for run in again] == [run.strata for run in stored]


def test_a_side_without_single_requests_cannot_be_weighted() -> None:
    """Neither a baseline after the change, nor histograms; the sentence gives the reason."""
    before, after = _sides(MOSTLY_SLOW, MOSTLY_FAST)
    stored = runs_of_baseline(baseline_document(after), "b.json")
    histograms = [
        [
            run_of_snapshot(_snapshot(records(seed, routes=routes, change=by_route)), f"{seed}")
            for seed in range(3)
        ]
        for routes in (MOSTLY_SLOW, MOSTLY_FAST)
    ]

    for one, two in ((before, stored), histograms):
        found = compare(one, two, P50)
        assert found.judgement is Judgement.NOT_INTERPRETABLE
        assert "cannot be weighted" in found.sentence


def _snapshot(requests: Iterable[RequestRecord]) -> Snapshot:
    recorder = Recorder(SystemClock(), keep=0)
    for each in requests:
        recorder.record(each)
    return recorder.snapshot()


def test_a_baseline_of_an_older_release_states_that_it_has_no_mix() -> None:
    """It has no routes, so a change of the mix looks like a change of speed."""
    before, after = _sides(MOSTLY_SLOW, MOSTLY_FAST)
    document = json.loads(json.dumps(baseline_document(before)))
    for run in document["runs"]:
        del run["mix"]

    found = compare(runs_of_baseline(document, "b.json"), after, P50)

    assert found.mix is None
    assert any("The mix of requests is unknown" in note for note in found.notes)
    assert not any("is unknown" in note for note in compare(before, after, P50).notes)


def test_a_change_behind_a_changed_mix_is_found() -> None:
    """Every route is 40 % faster, and there are more slow requests."""
    before = runs(0, routes=MOSTLY_FAST, change=by_route)
    factors = {"queue": 0.6, "prefill": 0.6, "decode": 0.6}
    after = runs(50, routes=MOSTLY_SLOW, change=by_route, factors=factors)
    assert compare(before, after, P50).judgement is Judgement.IMPROVED


def test_a_mix_of_many_small_routes_is_seen() -> None:
    """No route has more than 5 % of the requests, and the slow ones become rare."""
    slow, fast = (tuple(f"/{kind}{number}" for number in range(20)) for kind in ("slow", "fast"))
    found = compare(*_sides((*slow * 4, *fast), (*fast * 4, *slow)), P50)
    assert found.mix is not None
    assert found.mix.changed
    assert found.judgement is not Judgement.IMPROVED


def test_a_rare_route_decides_a_high_percentile() -> None:
    """7 % and 3 % of the requests: less than five points, and all of the tail."""
    before = ("/slow",) * 7 + ("/fast",) * 93
    after = ("/slow",) * 3 + ("/fast",) * 97
    found = compare(*_sides(before, after), P95)
    assert found.judgement is not Judgement.IMPROVED


def test_a_route_of_one_side_is_not_interpretable() -> None:
    """There is nothing to weigh; the reason names the route."""
    found = compare(*_sides(("/fast", "/slow"), ("/fast",)), P50)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert "/slow" in found.sentence


def test_an_accepted_mix_is_compared_as_it_is() -> None:
    """The change was to send fewer slow requests."""
    found = compare(*_sides(MOSTLY_SLOW, MOSTLY_FAST), P50, accept=["mix"])
    assert found.judgement is Judgement.IMPROVED


def _failing(record: RequestRecord) -> RequestRecord:
    """Return a call that fails on the slow route in one of five cases."""
    fails = record.attributes["route"] == "/slow" and record.start_epoch_ns // 10**8 // 5 % 5 == 0
    return replace(record, outcome=Outcome.ERROR, metrics={}) if fails else record


def test_more_requests_of_a_failing_route_are_no_more_failures() -> None:
    """The route fails as often as before."""
    before = runs(0, 3, routes=MOSTLY_FAST, change=_failing)
    after = runs(50, 3, routes=MOSTLY_SLOW, change=_failing)
    found = compare(before, after, P50)
    assert not found.failures.more


def _one_unknown(record: RequestRecord) -> RequestRecord:
    """Return a call of which one does not state whether it streams."""
    is_first = record.start_epoch_ns == 1_700_000_000_000_000_000
    streamed = record.attributes["route"] == "/slow"
    if is_first:
        return replace(
            by_route(record), outcome=Outcome.CANCELLED, metrics={}, attributes={"model": "m"}
        )
    return replace(by_route(record), streamed=streamed, attributes={"model": "m"})


def test_one_request_of_an_unknown_kind_does_not_switch_the_strata_off() -> None:
    """Streams are slow and become rare; one request ended before it was known to stream."""
    before = runs(0, 3, routes=MOSTLY_SLOW, change=_one_unknown)
    after = runs(50, 3, routes=MOSTLY_FAST, change=_one_unknown)
    found = compare(before, after, P50)
    assert found.mix is not None
    assert found.mix.changed
    assert found.judgement is not Judgement.IMPROVED


def _on_new_route(record: RequestRecord) -> RequestRecord:
    """Return a failed call of a new route in one of a hundred cases."""
    if record.start_epoch_ns // 10**8 % 100:
        return record
    failed = replace(record, outcome=Outcome.ERROR, metrics={})
    return replace(failed, attributes={**record.attributes, "route": "/new"})


def test_failures_of_a_new_route_count_although_the_mix_is_weighted() -> None:
    """It has no share before, so its requests had a weight of 0."""
    before = runs(0, count=2_000, routes=("/fast", "/slow"))
    after = runs(50, count=2_000, routes=("/fast", "/fast", "/slow"), change=_on_new_route)

    found = compare(before, after, P50)

    assert found.mix is not None
    assert found.mix.changed
    assert found.failures.after == pytest.approx(0.01, abs=0.001)
    assert found.failures.more


def _sampled(record: RequestRecord) -> RequestRecord:
    return replace(record, ratio=0.01)


def test_a_baseline_of_a_sample_has_the_evidence_of_its_lines() -> None:
    """Each of 400 lines stands for 100 requests; with 40,000, chance would be more failures."""
    before = runs(0, 3, failed=20, change=_sampled)
    after = runs(50, 3, failed=28, change=_sampled)
    documents = [json.loads(json.dumps(baseline_document(side))) for side in (before, after)]

    one, two = (runs_of_baseline(document, "b.json") for document in documents)

    assert [run.size for run in one] == [400.0] * 3
    assert not compare(before, after, P50).failures.more
    assert not compare(one, two, P50).failures.more


def test_histograms_have_as_much_evidence_as_requests() -> None:
    """Not as many as gaps between chunks, which made chance a changed mix."""
    made = [
        replace(each, chunk_gaps=(MetricValue(1_000_000),) * 40)
        for each in records(1, routes=("/fast", "/slow"))
    ]

    assert run_of_snapshot(_snapshot(made), "logs").size == len(made)


def _without_streams(record: RequestRecord) -> RequestRecord:
    """Return a request without calls: it does not state whether it streams."""
    return replace(
        by_route(record),
        kind=Kind.REQUEST,
        metrics={"duration": MetricValue(by_route(record).duration_ns)},
    )


def test_the_mix_of_a_baseline_does_not_need_streams() -> None:
    """A baseline without streams was taken for one of histograms, and its mix for unknown."""
    before = runs(0, 3, routes=MOSTLY_SLOW, change=_without_streams)
    after = runs(50, 3, routes=MOSTLY_FAST, change=_without_streams)
    stored = runs_of_baseline(json.loads(json.dumps(baseline_document(before))), "b.json")

    found = compare(stored, after, P50)

    assert found.mix is not None
    assert found.mix.changed
    assert found.judgement is not Judgement.IMPROVED


def _fails_before_its_call(record: RequestRecord) -> RequestRecord:
    if record.attributes["route"] != "/slow":
        return record
    return replace(record, outcome=Outcome.ERROR, metrics={}, streamed=None)


def test_a_route_that_fails_before_its_calls_is_the_same_route() -> None:
    """None of its requests shows whether it streams; those before the change do."""
    routes = ("/fast", "/slow")

    found = compare(
        runs(0, 3, routes=routes), runs(50, 3, routes=routes, change=_fails_before_its_call), P50
    )

    assert found.mix is not None
    assert not found.mix.changed
    assert found.failures.more


def test_a_damaged_mix_is_an_error() -> None:
    """A kind with no request would have an infinite weight."""
    document = json.loads(json.dumps(baseline_document(runs(0, 1))))
    document["runs"][0]["mix"][0]["requests"] = 0

    with pytest.raises(RecordingError, match="has none of them"):
        runs_of_baseline(document, "b.json")


def test_a_side_without_requests_has_no_mix() -> None:
    """For example a recording of a program that made no call."""
    empty, full = run_of_records([], "empty"), runs(50, 1, routes=("/chat", "/search"))
    for before, after in (([empty], full), (full, [empty])):
        found = compare(before, after, P95)
        assert found.judgement is Judgement.INCONCLUSIVE
        assert found.mix is not None
        assert not found.mix.changed
