"""Diagnosis of records: what is counted, and a clear answer whatever the recording contains."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from latspan import Kind, Source, semconv
from latspan._model.recording.folder import open_recording
from latspan._model.segments import Side
from latspan._study.diagnose import (
    CALIBRATING,
    Calibration,
    Conclusion,
    Goal,
    calibrate,
    diagnose,
    diagnose_table,
    parse_goal,
    table_of,
)
from latspan.errors import ConfigError
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment, TokenCounts
from support.simulation import records_of, requests_of, scenario_of, write_recording
from support.tables import table_in_ms

_MS: Final = 1_000_000

Change = Callable[[RequestRecord, int], RequestRecord]


def _call(
    number: int = 0, *, queue_ms: int = 100, decode_ms: int = 400, parent: int = 0
) -> RequestRecord:
    first, end = queue_ms * _MS, (queue_ms + decode_ms) * _MS
    return RequestRecord(
        name="chat small",
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=number * 1_000 * _MS,
        duration_ns=end,
        segments=(Segment("queue", 0, first), Segment("decode", first, end)),
        metrics={
            "duration": MetricValue(end),
            "time_to_first_token": MetricValue(first),
            "time_to_first_visible_token": MetricValue(first),
        },
        tokens=TokenCounts(input=500, output=40),
        parent_id=parent,
    )


def _calls(count: int = 100) -> list[RequestRecord]:
    return [_call(number, queue_ms=1_000 if number % 10 == 0 else 50) for number in range(count)]


def test_time_after_the_first_token_is_not_part_of_a_ttft() -> None:
    """Segments are cut at the goal metric."""
    table = table_of(_calls(), parse_goal("p95 ttft"))
    assert table.segment("decode").sum() == 0
    assert table.segment("queue").sum() == table.value_ns.sum()


def test_a_rival_that_changes_slowly_is_a_tie() -> None:
    """The sentence names it, how little is known about it and what to do."""
    hours = np.repeat([40.0, 60.0, 300.0, 90.0, 500.0, 80.0], 100)
    columns = {
        "gateway": hours.tolist(),
        "consumer": [300.0 + 200.0 * (number % 7) for number in range(600)],
    }
    found = diagnose_table(table_in_ms(columns, goal=Goal("duration", 95)))
    assert found.conclusion is Conclusion.TIE
    assert "are too close to call" in found.sentence
    assert "gateway changes so slowly that this recording holds only about" in found.sentence
    assert found.sentence.endswith("Measure for longer.")


@pytest.mark.parametrize(("streamed", "failed"), [(True, 3), (False, 0)])
def test_a_stream_without_a_token_has_no_bounded_ttft(*, streamed: bool, failed: int) -> None:
    """It counts as failed; a response that is not streamed has no first token by definition."""
    details = {semconv.GEN_AI_REQUEST_STREAM: streamed}
    empty = replace(_call(), metrics={"duration": MetricValue(500 * _MS)}, details=details)

    table = table_of([*_calls(30), *[empty] * 3], parse_goal("p95 ttft"))

    assert (int(table.failed.sum()), table.left_out) == (failed, 3 - failed)


def test_a_call_inside_a_request_is_not_a_unit_of_its_own() -> None:
    """Time is counted once: calls are part of their request."""
    records = [
        record
        for number in range(30)
        for record in (
            _call(number, parent=number + 1),
            replace(
                _call(number), name="answer", kind=Kind.REQUEST, scope_id=number + 1, parent_id=0
            ),
        )
    ]
    table = table_of(records, Goal())
    assert (table.kind, len(table)) == (Kind.REQUEST, 30)
    assert table_of(records, Goal(kind=Kind.CALL)).kind is Kind.CALL


def test_dispatch_lag_is_part_of_the_goal() -> None:
    """A load test counts from the scheduled time, so that a late generator is seen."""
    late = replace(_call(), details={semconv.LATSPAN_LOAD_DISPATCH_LAG: 0.25})
    table = table_of([late], Goal())
    assert table.segment("dispatch_lag").tolist() == [250 * _MS]
    assert table.value_ns.tolist() == [750 * _MS]


def test_parts_of_a_connection_count_as_one_segment() -> None:
    """One lever shortens name resolution, TCP and TLS, so they are not rivals."""
    parts = ("dns", "tcp", "tls")
    record = replace(
        _call(),
        segments=tuple(
            Segment(name, 100 * number * _MS, 100 * (number + 1) * _MS)
            for number, name in enumerate(parts)
        ),
        duration_ns=300 * _MS,
    )
    table = table_of([record], Goal())
    assert table.names == ("connect",)
    assert table.segment("connect").tolist() == [300 * _MS]


def test_gaps_of_a_blocked_loop_are_no_stalls_of_the_server() -> None:
    """Only gaps between measured arrivals show how a stream was generated."""
    even = (MetricValue(10 * _MS),) * 9
    stalls = [
        table_of([replace(_call(), chunk_gaps=(*even, gap))], Goal()).number("stalled").tolist()
        for gap in (MetricValue(510 * _MS), MetricValue(510 * _MS, Source.ESTIMATED))
    ]
    assert stalls == [[500 * _MS], [0]]


def test_an_unsorted_recording_has_the_answer_of_a_sorted_one() -> None:
    """Processes write in the order of ends, and several files follow one another."""
    records = _calls(200)
    mixed = records.copy()
    random.Random(1).shuffle(mixed)  # noqa: S311 - an order for a test
    assert diagnose(mixed, Goal()).shares == diagnose(records, Goal()).shares


def _hostile(change: Change) -> list[RequestRecord]:
    return [change(record, number) for number, record in enumerate(_calls())]


@pytest.mark.parametrize(
    ("records", "conclusion"),
    [
        ([], Conclusion.TOO_FEW),
        (_calls(1), Conclusion.TOO_FEW),
        (_calls(19), Conclusion.TOO_FEW),
        (_hostile(lambda record, _: replace(record, outcome=Outcome.ERROR)), Conclusion.UNRELIABLE),
        (_hostile(lambda record, _: replace(record, outcome=Outcome.CANCELLED)), Conclusion.FIX),
        (_hostile(lambda record, _: replace(record, segments=())), Conclusion.TOO_FEW),
        (_hostile(lambda record, _: replace(record, duration_ns=0)), Conclusion.TOO_FEW),
        (_hostile(lambda record, _: replace(record, kind=Kind.STAGE)), Conclusion.TOO_FEW),
        (_hostile(lambda record, _: replace(record, kind=Kind.HTTP)), Conclusion.TOO_FEW),
    ],
    ids=[
        "empty",
        "one request",
        "19 requests",
        "all failed",
        "all cancelled",
        "no segments",
        "no duration",
        "stages only",
        "exchanges only",
    ],
)
def test_a_poor_recording_has_a_clear_answer(
    records: list[RequestRecord], conclusion: Conclusion
) -> None:
    """A recording from which nothing follows has a conclusion, and never fails."""
    diagnosis = diagnose(records, Goal())
    assert diagnosis.conclusion is conclusion
    assert diagnosis.sentence.endswith(".")


_HOSTILE: Final[tuple[Change, ...]] = (
    lambda record, _: replace(record, metrics={}, marks_ns={}, tokens=TokenCounts()),
    lambda record, _: replace(record, start_epoch_ns=0),
    lambda record, number: replace(record, start_epoch_ns=-(10**18) * (number % 2)),
    lambda record, number: replace(record, duration_ns=2**62 if number == 3 else 1),
    lambda record, _: replace(record, details={"latspan.kv.usage": math.nan}),
    lambda record, _: replace(record, details={"latspan.kv.usage": "full", "x": "y" * 10_000}),
    lambda record, _: replace(record, details={"latspan.load.dispatch_lag": -1e30}),
    lambda record, number: replace(record, details={"user": str(number)}),
    lambda record, number: replace(record, attributes={"route": f"/{number}"}),
    lambda record, _: replace(record, chunk_gaps=(MetricValue(0),) * 3),
    lambda record, _: replace(record, tokens=TokenCounts(input=0, cached=9, output=0)),
    lambda record, number: replace(record, parent_id=number, root_id=number),
    lambda record, number: replace(record, kind=Kind.REQUEST, scope_id=number, side=Side.SERVER),
    lambda record, _: replace(record, segments=record.segments[::-1]),
)


@pytest.mark.parametrize("metric", ["duration", "ttft", "time_to_first_visible_token"])
@pytest.mark.parametrize("change", _HOSTILE)
def test_hostile_values_never_raise(change: Change, metric: str) -> None:
    """Missing marks, impossible times and strange attributes give an answer."""
    goal = parse_goal(f"p95 {metric}")
    records = _hostile(change)
    for calibration in (None, calibrate(table_of(records, CALIBRATING))):
        diagnosis = diagnose(records, goal, calibration=calibration, stable_tokens=100)
        assert diagnosis.sentence
        assert all(0 <= share.low <= share.high <= 1 for share in diagnosis.shares)


@pytest.mark.parametrize("percentile", [50, 90, 95, 99, 99.9])
def test_every_percentile_has_an_answer(percentile: float) -> None:
    """The band has at least 30 requests if there are enough, whatever the percentile."""
    diagnosis = diagnose(_calls(), Goal(percentile=percentile))
    assert diagnosis.conclusion in (Conclusion.FIX, Conclusion.TIE)


def test_slow_requests_are_counted_if_some_of_them_are_not_slow() -> None:
    """Of 100, the 30 slowest are needed for an interval, although ten are the slow ones."""
    even = [_call(number, queue_ms=900) for number in range(400)]
    few, many = diagnose(even[:100], Goal()), diagnose(even, Goal())
    assert "the slowest 30 calls take" in few.sentence
    assert "slow calls take" in many.sentence


def test_a_recording_that_is_cut_off_is_diagnosed(tmp_path: Path) -> None:
    """A line that a killed process did not finish costs that request only."""
    scenario = replace(scenario_of(("retrieval", 1.0)), requests=100)
    write_recording(tmp_path, records_of(requests_of(scenario, 1), scenario))
    (file,) = tmp_path.glob("*.jsonl")
    text = file.read_bytes()
    file.write_bytes(text[: len(text) - 200])
    diagnosis = diagnose(open_recording(tmp_path).records(), Goal())
    assert diagnosis.finding is not None
    assert diagnosis.finding.cause == "retrieval"
    assert diagnosis.units == 99


def test_a_target_that_is_met_leaves_nothing_to_fix() -> None:
    """With confidence that the target is met, no cause is named."""
    diagnosis = diagnose(_calls(200), Goal(limit_ns=2_000 * _MS))
    assert diagnosis.conclusion is Conclusion.NOTHING_TO_FIX
    assert diagnosis.finding is None


def test_a_target_that_is_not_proven_is_explained() -> None:
    """Without confidence, the leading delay is named."""
    diagnosis = diagnose(_calls(40), Goal(limit_ns=2_000 * _MS))
    assert diagnosis.conclusion is Conclusion.FIX


def test_an_invalid_measurement_names_no_cause() -> None:
    """The reason is the answer."""
    diagnosis = diagnose(_calls(), Goal(), invalid="the generator could not keep up")
    assert diagnosis.conclusion is Conclusion.INVALID
    assert "could not keep up" in diagnosis.sentence


def test_queue_and_prefill_are_not_told_apart_without_evidence() -> None:
    """A wait is one segment, and a note names what would divide it."""
    table = table_in_ms({"server_wait": [900.0] * 200, "decode": [100.0] * 200})
    diagnosis = diagnose_table(table)
    assert diagnosis.finding is not None
    assert diagnosis.finding.cause == "server_wait"
    assert any("calibration" in note for note in diagnosis.notes)


def test_a_calibration_divides_the_wait() -> None:
    """What an idle server needs for a prompt is prefill, the rest is queue, both estimated."""
    table = table_in_ms({"server_wait": [1_000.0] * 200}, numbers={"input_tokens": [1_000.0] * 200})
    diagnosis = diagnose_table(table, calibration=Calibration(50e6, 0.05e6))
    assert {share.name: (round(share.share, 6), share.uncertain) for share in diagnosis.shares} == {
        "queue": (0.9, 1.0),
        "prefill": (0.1, 1.0),
    }
    assert any(note.startswith("Estimated") for note in diagnosis.notes)


def test_an_estimated_queue_has_to_lead_by_more_than_its_error() -> None:
    """An estimated queue is up to 18 points too large, so a small lead is a tie."""
    table = table_in_ms({"server_wait": [1_000.0] * 200}, numbers={"input_tokens": [1_000.0] * 200})
    diagnosis = diagnose_table(table, calibration=Calibration(0.0, 0.4e6))
    assert diagnosis.conclusion is Conclusion.TIE


def test_a_calibration_is_the_line_through_its_measurement() -> None:
    """The calibration has the fixed time and the time per token of an idle server."""
    tokens = np.linspace(100, 2_000, 50)
    records = [
        replace(
            _call(number, queue_ms=round(20 + each / 5)),
            tokens=TokenCounts(input=round(each), output=40),
        )
        for number, each in enumerate(tokens.tolist())
    ]
    found = calibrate(table_of(records, Goal("time_to_first_token", 50)))
    assert found is not None
    assert found.intercept_ns == pytest.approx(20e6, abs=1e6)
    assert found.per_token_ns == pytest.approx(0.2e6, rel=0.01)


def test_a_calibration_without_tokens_is_none() -> None:
    """Fewer than ten requests with tokens define no line."""
    assert calibrate(table_of([], Goal("time_to_first_token", 50))) is None


@pytest.mark.parametrize(
    "text", ["", "p95", "ttft p95 500", "p95 ttft; rm", "p100 ttft", "p10 ttft"]
)
def test_a_text_that_is_not_a_goal_is_an_error_with_a_hint(text: str) -> None:
    """The error names the text, and the hint an example."""
    with pytest.raises(ConfigError) as caught:
        parse_goal(text)
    assert caught.value.hint


def test_a_target_that_only_given_up_requests_leave_open_is_undecided() -> None:
    """No cause is named, because the other requests are well within the limit."""
    records = [
        replace(_call(number), outcome=Outcome.CANCELLED if number % 5 == 0 else Outcome.COMPLETED)
        for number in range(200)
    ]
    limit_ms = 2 * records[0].duration_ns / _MS
    found = diagnose(records, parse_goal("p95 duration", limit_ms=limit_ms))
    assert found.conclusion is Conclusion.UNDECIDED
    assert found.finding is None
    assert "40 of 200 calls were given up before it" in found.sentence


@pytest.mark.parametrize("metric", ["tpot", "chunk_gap_max"])
def test_a_pace_is_divided_among_the_segments_after_the_first_token(metric: str) -> None:
    """They add up to the value, and the time before the first token has no part in it."""
    scenario = replace(scenario_of(("slow_decode", 1.0)), requests=300)
    records = list(records_of(requests_of(scenario, 1), scenario))
    table = table_of(records, parse_goal(f"p95 {metric}"))
    assert table.kind is Kind.CALL
    known = ~np.isnan(table.value_ns)
    assert table.segments_ns.sum(axis=1)[known] == pytest.approx(table.value_ns[known], rel=1e-5)
    assert not table.segment("prefill", "queue", "server_wait", "prepare").any()
    found = diagnose_table(table)
    assert found.finding is not None
    assert found.finding.cause in ("slow_decode", "random_stalls")


def test_a_snapshot_is_not_a_goal() -> None:
    """It has an argument of its own, which the hint names."""
    snapshot: Any = object()
    with pytest.raises(ConfigError, match="object is not a goal") as raised:
        parse_goal(snapshot)
    assert "snapshot=" in (raised.value.hint or "")
