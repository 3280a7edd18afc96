"""The ground: errors, units, clocks, vocabulary, metric names."""

from __future__ import annotations

import time

import pytest

from latspan import semconv
from latspan._base.clock import ManualClock, SystemClock
from latspan._base.nanoseconds import to_seconds
from latspan._model.metrics import (
    CONVENTION_METRICS,
    METRICS,
    metric_named,
    stalls,
    time_per_output_token,
)
from latspan._model.segments import Segment, Source, totals
from latspan._model.units import MetricUnit, from_unit, in_metric_unit, in_unit
from latspan.errors import (
    ConfigError,
    LatspanError,
    MissingExtraError,
    NotEnoughValuesError,
    UnknownNameError,
)


def test_an_error_prints_how_to_mend_it() -> None:
    """On a line of its own, behind ``hint:``."""
    assert str(ConfigError("port is -1", hint="use 4318")) == "port is -1\nhint: use 4318"
    assert str(LatspanError("port is -1")) == "port is -1"


def test_a_missing_extra_gives_the_line_to_type() -> None:
    """The very command, quoted for a shell."""
    error = MissingExtraError("rich", extra="demo")
    assert isinstance(error, ImportError)
    assert str(error).endswith("hint: pip install 'latspan[demo]'")


def test_the_error_for_too_few_values_has_the_number_needed() -> None:
    """The number needed, the number there is, and the difference."""
    error = NotEnoughValuesError("ttft", percentile=95, count=7, needed=20)
    assert str(error) == (
        "p95 of ttft needs 20 values, there are 7\n"
        "hint: record 13 more, or query a lower percentile"
    )


def test_units_convert_both_ways() -> None:
    """Nanoseconds inside, anything at the edges."""
    assert in_unit(1_500_000, "ms") == 1.5
    assert from_unit(1.5, "ms") == 1_500_000
    assert to_seconds(250_000_000) == 0.25
    with pytest.raises(UnknownNameError, match="'min' is not a unit of time"):
        in_unit(1, "min")  # pyright: ignore[reportArgumentType]


def test_a_manual_clock_moves_only_if_advanced_and_never_back() -> None:
    """Durations are what was advanced."""
    clock = ManualClock(5, epoch_offset_ns=100)
    clock.advance(3)
    clock.advance_to(6)
    assert clock.monotonic_ns() == 8
    clock.advance_to(20)
    assert clock.monotonic_ns() + clock.epoch_offset_ns() == 120
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


def test_the_system_clock_places_monotonic_readings_on_the_calendar() -> None:
    """A reading plus the offset lies between two readings of the wall clock."""
    clock = SystemClock()
    before = time.time_ns()
    wall = clock.monotonic_ns() + clock.epoch_offset_ns()
    after = time.time_ns()
    slack_ns = 1_000_000
    assert before - slack_ns <= wall <= after + slack_ns


def test_metrics_go_by_name_and_alias() -> None:
    """And a slip gets the nearest name."""
    assert metric_named("ttft") is METRICS["time_to_first_token"]
    with pytest.raises(UnknownNameError, match="did you mean 'ttft'"):
        metric_named("ttftt")
    with pytest.raises(UnknownNameError, match="one of duration, "):
        metric_named("xyzzy")


def test_the_conventions_metrics_go_by_their_own_names() -> None:
    """Each has the boundaries that the conventions advise: seconds, or tokens."""
    seconds = (
        *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64),
        *(1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    )
    tokens = (
        *(1, 4, 16, 64, 256, 1024, 4096),
        *(16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864),
    )
    assert {name: metric_named(name) for name in CONVENTION_METRICS} == CONVENTION_METRICS
    assert {
        "gen_ai.client.operation.duration": seconds,
        "gen_ai.client.operation.time_to_first_chunk": seconds,
        "gen_ai.client.operation.time_per_output_chunk": seconds,
        "gen_ai.client.token.usage": tokens,
        "gen_ai.server.request.duration": seconds,
        "gen_ai.server.time_to_first_token": (
            *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1),
            *(0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
        ),
        "gen_ai.server.time_per_output_token": (
            *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2),
            *(0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
        ),
    } == semconv.EXPLICIT_BOUNDS
    assert set(CONVENTION_METRICS) == set(semconv.EXPLICIT_BOUNDS)


def test_time_per_output_token_divides_by_the_tokens_after_the_first() -> None:
    """Undefined for fewer than two, never 0."""
    assert time_per_output_token(100, 11) == 10
    assert time_per_output_token(100, 1) is None


def test_a_stall_is_longer_than_the_limit() -> None:
    """Counted, with the excess in all."""
    assert stalls([100, 500, 501, 900], 500)[:2] == (2, 401)


def test_a_sum_of_segments_claims_no_more_than_its_weakest_part() -> None:
    """Measured and estimated together are estimated."""
    (total,) = totals(
        [Segment("network", 0, 5, Source.MEASURED), Segment("network", 9, 11, Source.ESTIMATED)]
    )
    assert (total.duration_ns, total.source) == (7, Source.ESTIMATED)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [(1_500_000_000, "s", 1.5), (7, "1", 7), (250_000_000, "ratio", 0.25)],
)
def test_a_metrics_values_leave_in_its_own_unit(value: int, unit: MetricUnit, shown: float) -> None:
    """Seconds, counts and ratios, whatever they are held as."""
    assert in_metric_unit(value, unit) == shown
