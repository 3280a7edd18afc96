"""Tests of the text of a goal, and of the value that it becomes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.goals import PercentileGoal, Target, parse_percentile_goal, requested_goal
from latspan._study.compare import Question
from latspan._study.diagnose import Goal
from latspan.errors import ConfigError, LatspanError, UnknownNameError

_TTFT = "time_to_first_token"
_P95_500_MS = PercentileGoal(_TTFT, 95, 500 * NS_PER_MS)


@pytest.mark.parametrize("goal", ["p95 ttft", "ttft p95", "p95_ttft", "  P95   TTFT "])
@pytest.mark.parametrize(
    "limit",
    [" <= 500ms", "<=500 ms", " ≤ 0.5s", " < 500000us", "<=500000 µs", "≤ 500000μs", " 500ms"],
)
def test_every_spelling_is_the_same_goal(goal: str, limit: str) -> None:
    """The order, the sign, the unit and the spaces do not matter."""
    assert parse_percentile_goal(goal.strip() + limit) == _P95_500_MS
    assert parse_percentile_goal(goal) == PercentileGoal(_TTFT, 95)
    assert parse_percentile_goal(goal, limit_ms=500) == _P95_500_MS


@pytest.mark.parametrize(
    ("limit", "limit_ns"),
    [("1ns", 1), ("1min", 60 * 10**9), ("0.1 ms", 10**5), ("1.5 s", 15 * 10**8)],
)
def test_a_limit_is_exact_in_every_unit(limit: str, limit_ns: int) -> None:
    """0.1 ms is a whole number of nanoseconds."""
    assert parse_percentile_goal(f"p99.9 duration <= {limit}").limit_ns == limit_ns


@pytest.mark.parametrize(
    "text",
    ["", "p95", "fast", "ttft 500ms", "p95 ttft 500", "p95 ttft <=", "p95 ttft >= 500ms",
     "p95 ttft <= -5ms", "p95 ttft <= 5h", "p100 ttft", "p0.95 ttft", "p95 ttft; rm", "95 ttft"],
)  # fmt: skip
def test_another_text_is_not_a_goal(text: str) -> None:
    """There is one error, with one hint."""
    with pytest.raises(ConfigError) as caught:
        parse_percentile_goal(text)
    assert caught.value.message == f"'{text}' is not a goal"
    assert caught.value.hint == "for example 'p95 ttft <= 500ms' or 'p99 duration <= 10s'"


@pytest.mark.parametrize(
    ("text", "limit_ms", "message"),
    [
        ("p95 ttft <= 0ms", None, "must be more than 0"),
        ("p95 ttft <= 999999999s", None, "more than 11 days"),
        (f"p95 ttft <= {'9' * 400}s", None, "more than 11 days"),
        ("p95 ttft", 0.0, "the limit must be more than 0 ms \\(got 0\\)"),
        ("p95 ttft", float("nan"), "the limit must be more than 0 ms"),
        ("p95 ttft <= 500ms", 400.0, "has a limit, and a limit of 400 ms is given next to it"),
        ("p95 chunk_gap", None, "'chunk_gap', which is not one time per request"),
    ],
)
def test_a_goal_out_of_range_is_explained(text: str, limit_ms: float | None, message: str) -> None:
    """Two limits are an error if they differ."""
    with pytest.raises(ConfigError, match=message) as caught:
        parse_percentile_goal(text, limit_ms=limit_ms)
    assert caught.value.hint


def test_the_same_limit_can_be_given_twice() -> None:
    """Both say the same."""
    assert parse_percentile_goal("p95 ttft <= 500ms", limit_ms=500) == _P95_500_MS


def test_an_unknown_metric_is_named_with_the_nearest_one() -> None:
    """The text has the form of a goal."""
    with pytest.raises(UnknownNameError, match="no metric 'tftt'"):
        parse_percentile_goal("p95 tftt <= 500ms")


@given(st.text(alphabet="p95 tfduraion_<=≤.0msnuµ", max_size=30))
def test_a_text_is_a_goal_or_an_error_of_latspan(text: str) -> None:
    """No text breaks the parser."""
    with suppress(LatspanError):
        parse_percentile_goal(text)


def test_a_goal_without_a_limit_says_so_where_one_is_needed() -> None:
    """The hint shows how to add it."""
    assert _P95_500_MS.required_limit_ns == 500 * NS_PER_MS
    with pytest.raises(ConfigError, match="'p95 duration' has no limit"):
        _ = PercentileGoal("duration", 95).required_limit_ns


def test_the_goal_of_every_question_has_one_text() -> None:
    """A limit is not part of it."""
    shown = {
        str(_P95_500_MS),
        str(Goal("ttft", 95, 10**9)),
        str(Question("ttft", 95, 10**9, 1.1)),
        str(parse_percentile_goal("ttft p95 1s")),
    }
    assert shown == {"p95 time_to_first_token"}


def test_the_first_target_is_the_goal_if_none_is_requested() -> None:
    """A separate limit replaces the target's; a goal without a limit has that of its target."""
    first = Target(metric="ttft", percentile=99.99999, limit_ns=7)
    targets = (first, Target(metric="duration", percentile=99, limit_ns=8))

    def chosen(text: str | None, limit_ms: float | None = None) -> PercentileGoal:
        return requested_goal(text, limit_ms=limit_ms, targets=targets, default="p95 duration")

    assert chosen(None) == PercentileGoal("ttft", 99.99999, 7)
    assert chosen(None, 1) == PercentileGoal("ttft", 99.99999, NS_PER_MS)
    assert chosen("p99 duration").limit_ns == 8
    assert chosen("p99 duration <= 9ns").limit_ns == 9
    assert chosen("p98 duration").limit_ns is None
    alone = requested_goal(None, limit_ms=1, targets=(), default="p95 duration")
    assert alone == PercentileGoal("duration", 95, NS_PER_MS)
