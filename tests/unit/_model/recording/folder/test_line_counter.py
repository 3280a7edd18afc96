"""Lines that are counted together have the histograms of records that are counted alone."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._base.clock import ManualClock
from latspan._model.metrics import MetricValue
from latspan._model.recording import Recorder, RequestRecord, SeriesKey
from latspan._model.recording.folder._line_counter import LineCounter
from latspan._model.recording.folder._lines import line_of, row_of
from latspan._model.segments import Kind, Outcome, Segment, Side, Source
from latspan._model.tokens import TokenCounts, TokenSource
from latspan.histogram import Histogram

MS = 1_000_000


@st.composite
def records(draw: st.DrawFn) -> RequestRecord:
    outcome = draw(st.sampled_from([Outcome.COMPLETED, Outcome.COMPLETED, *Outcome]))
    source = draw(st.sampled_from([Source.MEASURED, Source.ESTIMATED]))
    names = draw(st.lists(st.sampled_from(["queue", "prefill", "decode"]), min_size=1, max_size=4))
    lengths = [draw(st.integers(0, 50)) * MS for _ in names]
    segments: list[Segment] = []
    at = 0
    for name, length in zip(names, lengths, strict=True):
        segments.append(Segment(name, at, at + length, source))
        at += length
    metrics = {"duration": MetricValue(at)}
    if draw(st.booleans()):
        metrics["time_to_first_token"] = MetricValue(draw(st.integers(0, 40)) * MS, source)
    gaps = draw(st.lists(st.integers(0, 90 * MS), max_size=4))
    return RequestRecord(
        name="chat m",
        kind=draw(st.sampled_from([Kind.CALL, Kind.REQUEST, Kind.STAGE])),
        side=draw(st.sampled_from(Side)),
        outcome=outcome,
        start_epoch_ns=10**18,
        duration_ns=at,
        segments=tuple(segments),
        metrics=metrics,
        chunk_gaps=tuple(
            MetricValue(each, draw(st.sampled_from([Source.MEASURED, Source.MEASURED, source])))
            for each in gaps
        ),
        tokens=draw(
            st.sampled_from(
                [TokenCounts(), TokenCounts(input=7, output=3, source=TokenSource.PROVIDER)]
            )
        ),
        attributes=draw(st.sampled_from([{}, {"model": "m"}, {"model": "n", "route": "/chat"}])),
        reports=draw(st.sampled_from([None, None, (), (Segment("prepare", 0, at),)])),
        streamed=draw(st.sampled_from([None, True, False])),
    )


def counted(lines: list[bytes]) -> tuple[dict[SeriesKey, Histogram], LineCounter]:
    counter = LineCounter()
    counter.add(map(row_of, lines))
    snapshot = counter.snapshot()
    return {key: each.histogram for key, each in snapshot.series.items()}, counter


@given(st.lists(records(), max_size=12))
def test_the_histograms_are_those_of_the_records(drawn: list[RequestRecord]) -> None:
    """Whatever the kinds, outcomes, sources and attributes of neighbouring lines are."""
    recorder = Recorder(ManualClock(), keep=0)
    for each in drawn * 3:
        recorder.record(each)
    alone = {key: each.histogram for key, each in recorder.snapshot().series.items()}

    together, _ = counted([line_of(each).encode() for each in drawn * 3])

    assert together == alone


def a_call(duration_ms: int = 100, outcome: Outcome = Outcome.COMPLETED) -> dict[str, Any]:
    return {
        "kind": "call",
        "name": "chat m",
        "outcome": outcome.value,
        "start_epoch_ns": 10**18,
        "duration_ns": duration_ms * MS,
        "segments": [["decode", 0, duration_ms * MS, "measured"]],
        "metrics": {"duration": duration_ms * MS},
        "chunk_gaps_ns": [1, 2],
        "marks_ns": {"start": 0},
        "tokens": {"input": 1, "output": 3, "source": "provider"},
        "trace_id": "0f",
    }


def as_line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def test_weights_add_up_by_outcome() -> None:
    """Every second of 400 lines is a timeout, and each stands for 1.5 requests: 300 of each."""
    pair = [Outcome.COMPLETED, Outcome.TIMEOUT]
    lines = [as_line({**a_call(outcome=each), "ratio": 1 / 1.5}) for each in pair * 200]

    together, counter = counted(lines)

    assert counter.is_sampled
    counts = Counter(
        {str(key.subject.outcome): each.count for key, each in together.items()
         if key.metric == "duration"}
    )  # fmt: skip
    assert counts == {"completed": 300, "timeout": 300}


def test_the_weighted_mean_is_that_of_the_lines() -> None:
    """To within the one request that the rounding may move, computed from the lines."""
    chosen = random.Random(5)  # noqa: S311 - a sample
    drawn = [(chosen.randrange(1, 500), chosen.choice([1, 0.7, 0.3, 0.11])) for _ in range(2_000)]

    together, _ = counted([as_line({**a_call(ms), "ratio": ratio}) for ms, ratio in drawn])

    (duration,) = (each for key, each in together.items() if key.metric == "duration")
    weight = sum(1 / ratio for _, ratio in drawn)
    assert duration.count == pytest.approx(weight, abs=1)
    mean_ms = sum(ms / ratio for ms, ratio in drawn) / weight
    assert duration.mean_ns / MS == pytest.approx(mean_ms, rel=0.01)
