"""Bounds of a table: the same as those of each record, whatever its outcome."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from latspan import Kind
from latspan._study.table import table_of_records
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment

_METRICS = ("duration", "time_to_first_token", "time_per_output_token", "chunk_gap_max", "fluidity")


def _records() -> list[RequestRecord]:
    made: list[RequestRecord] = []
    for number, (outcome, first, streamed) in enumerate(
        product(Outcome, (None, 40), (True, False, None))
    ):
        wait = 100 if first is None else first
        segments = [Segment("prepare", 0, 5), Segment("server_wait", 5, wait)]
        if first is not None:
            segments += [Segment("decode", wait, 70), Segment("server_wait", 70, 95)]
            segments += [Segment("consumer", 95, 100)]
        metrics = {} if first is None else {"time_to_first_token": MetricValue(first)}
        if first is not None:
            metrics["chunk_gap_max"] = MetricValue(9)
        made.append(
            RequestRecord(
                name="chat m",
                kind=Kind.CALL,
                outcome=outcome,
                start_epoch_ns=number,
                duration_ns=100,
                segments=tuple(segments),
                metrics=metrics,
                streamed=streamed,
            )
        )
    return made


@pytest.mark.parametrize("metric", _METRICS)
def test_a_table_knows_of_each_request_what_its_record_does(metric: str) -> None:
    """Eight outcomes, with and without a first token, streamed or not or unknown."""
    records = _records()
    known = table_of_records(records).bounds(metric)
    for row, record in enumerate(records):
        wanted = record.censored(metric)
        found = known.low[row], known.high[row]
        if wanted is None:
            assert all(map(math.isnan, found))
        else:
            assert found == (wanted.low, wanted.high)


def test_a_metric_that_no_request_has_does_not_apply() -> None:
    """Of requests that do not state whether they stream, and have no first token."""
    records = [
        replace(each, streamed=None, metrics={}) for each in _records() if each.streamed is None
    ]
    assert not table_of_records(records).bounds("time_to_first_token").applies.any()


def test_a_line_weighs_as_many_requests_as_it_stands_for() -> None:
    """1 / ratio, not rounded."""
    records = [
        replace(each, ratio=ratio) for each, ratio in zip(_records(), (1, 0.4, 0.1), strict=False)
    ]
    table = table_of_records(records)
    np.testing.assert_allclose(table.weight, [1, 2.5, 10])
    assert table.requests == pytest.approx(13.5)
    assert table.is_sampled
