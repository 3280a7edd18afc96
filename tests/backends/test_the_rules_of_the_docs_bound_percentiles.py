"""The recording rules of the docs, evaluated by Prometheus, give the bounds of the application."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.backends.conftest import WATCHED, Watched

METRICS: Final = Path(__file__).parents[2] / "docs" / "metrics.md"

RULE: Final = re.compile(r"- record: (\S+)\n +expr: (?:>\n)?(.*?)(?=\n +- record|\n```)", re.DOTALL)

SELECTOR: Final = 'latspan_kind="call"'

TOLERANCE: Final = 0.01
"""Exported at scale 8 a bucket is 0.27 % wide; the application's own precision is 0.1 %."""


def rules() -> dict[str, str]:
    """Return the expression of each rule by its name."""
    return {name: " ".join(text.split()) for name, text in RULE.findall(METRICS.read_text())}


def query(name: str, metric: str) -> str:
    """Return one rule as a single query, for a metric of the watched application."""
    expressions = rules()
    found = expressions[name]
    while names := [each for each in expressions if each in found]:
        for each in names:
            found = found.replace(each, f"({expressions[each]})")
    own = found.replace(SELECTOR, f'{SELECTOR},service_name="{WATCHED}"')
    return own.replace("time_to_first_token", metric)


@pytest.mark.parametrize("metric", ["time_to_first_token", "time_per_output_token"])
def test_both_ends_of_the_p95(watched: Watched, metric: str) -> None:
    low, high = watched.calls["metrics"][metric]["p95_bounds"]

    ((_, found_low),) = watched.show(query("latspan:ttft_p95_low:rate5m", metric))
    ((_, found_high),) = watched.show(query("latspan:ttft_p95_high:rate5m", metric))

    assert (found_low, found_high) == pytest.approx((low, high), rel=TOLERANCE)


def test_the_share_that_was_given_up(watched: Watched) -> None:
    """Every round of the application has one call that is left after its first token."""
    share = "histogram_count({cut}) / ({every})".format(
        cut=query("latspan:ttft_cut:rate5m", "time_per_output_token"),
        every=query("latspan:ttft:count_rate5m", "time_per_output_token"),
    )
    calls = watched.calls["metrics"]["time_per_output_token"]

    ((_, found),) = watched.show(share)

    every = calls["count"] + calls["cut"] + calls["failed"]
    assert found == pytest.approx(calls["cut"] / every, rel=1e-6)
