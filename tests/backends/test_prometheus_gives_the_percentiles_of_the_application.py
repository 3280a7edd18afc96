"""An application, a Collector and Prometheus: native histograms have the application's p95."""

from __future__ import annotations

from typing import Any, Final

import pytest

from support.backends import eventually
from tests.backends.conftest import SERVICE, Run

METRICS: Final = {
    "segment": "latspan_segment_duration_seconds",
    "time_to_first_token": "latspan_time_to_first_token_seconds",
    "time_to_first_visible_token": "latspan_time_to_first_visible_token_seconds",
    "time_per_output_token": "latspan_time_per_output_token_seconds",
    "chunk_gap": "latspan_chunk_gap_seconds",
}
"""As Prometheus calls them; those of which every value is a time that is not zero."""

TOLERANCE: Final = 0.01
"""Exported at scale 8 a bucket is 0.27 % wide; the application's own precision is 0.1 %."""


def test_the_p95_of_every_segment(run: Run) -> None:
    """Of calls, with no value more or less."""
    expected = {
        (each["metric"], each["segment"] or ""): each
        for each in run.document["distributions"]
        if each["kind"] == "call" and each["metric"] in METRICS and each["p95"]
    }
    assert {segment for _, segment in expected} >= {"send", "queue", "prefill", "decode"}
    assert {metric for metric, _ in expected} == set(METRICS)

    for metric, name in METRICS.items():
        wanted = {segment: each for (m, segment), each in expected.items() if m == metric}
        series = (
            f'sum by (latspan_segment) ({name}{{service_name="{SERVICE}",latspan_kind="call"}})'
        )
        counts = {segment: each["count"] for segment, each in wanted.items()}

        def count(series: str = series, counts: dict[str, Any] = counts) -> dict[str, float]:
            return by_segment(run, f"histogram_count({series})", counts)

        assert eventually(count, counts.__eq__) == counts
        found = by_segment(run, f"histogram_quantile(0.95, {series})", counts)
        p95 = {segment: each["p95"] for segment, each in wanted.items()}
        assert found == pytest.approx(p95, rel=TOLERANCE)
    assert sum(each["count"] for each in expected.values()) > 1_000


def by_segment(run: Run, promql: str, wanted: dict[str, Any]) -> dict[str, float]:
    """Return each value by its segment, those alone that are wanted; "" is of no segment."""
    found = {said.get("latspan_segment", ""): value for said, value in run.backends.query(promql)}
    return {segment: value for segment, value in found.items() if segment in wanted}
