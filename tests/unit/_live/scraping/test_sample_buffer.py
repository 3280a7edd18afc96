"""A sample buffer returns the sampled values for the time of a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._live.scraping._sample_buffer import Sample, SampleBuffer

S = 1_000_000_000


def gauges(*values: tuple[int, float]) -> SampleBuffer:
    """Return a buffer with samples of one gauge, by second."""
    history = SampleBuffer(1.0)
    for at_s, value in values:
        history.add(at_s * S, Sample(gauges={"waiting": value}))
    return history


@pytest.mark.parametrize(
    ("start_s", "done_s", "expected"),
    [
        (3, 5, {"waiting": 7}),
        (2.5, 2.7, {"waiting": 1}),
        (3, 3, {"waiting": 7}),
        (4.5, 4.6, {"waiting": 2}),
        (6.1, 9, {}),
        (0, 0.9, {}),
    ],
    ids=["several", "one before", "at one", "the latest", "none any more", "none yet"],
)
def test_a_gauge_is_the_greatest_sample_from_one_interval_before_the_start(
    start_s: float, done_s: float, expected: dict[str, float]
) -> None:
    """Without a sample there is no value, and not a zero."""
    history = gauges((1, 0), (2, 1), (3, 7), (4, 2), (5, 0))

    assert history.during(round(start_s * S), round(done_s * S)) == expected


def test_a_sampled_zero_is_returned_as_zero() -> None:
    assert gauges((1, 0)).during(S, 2 * S) == {"waiting": 0}


def test_a_ratio_covers_the_counts_between_two_samples() -> None:
    """Counts from before are subtracted, and without new counts there is no ratio."""
    history = SampleBuffer(1.0)
    for at_s, pair in enumerate([(900, 1000), (910, 1100), (915, 1110), (915, 1110)]):
        history.add(at_s * S, Sample(shares={"hits": pair}))

    assert history.during(S, 2 * S) == {"hits": (10 + 5) / (100 + 10)}
    assert history.during(round(2.5 * S), 3 * S) == {"hits": 5 / 10}
    assert history.during(round(3.5 * S), 4 * S) == {}


def test_the_first_sample_yields_no_counts() -> None:
    """The time at which its counts began is unknown."""
    history = SampleBuffer(1.0)
    history.add(S, Sample(shares={"hits": (1, 2)}, totals={"faults": 3}))

    assert history.during(0, 2 * S) == {}


def test_counting_starts_again_after_a_gap() -> None:
    """Counts made during the gap do not belong to the interval that ends with the next sample."""
    history = SampleBuffer(1.0)
    history.add(S, Sample(shares={"hits": (0, 0)}, totals={"faults": 0}))
    history.interrupted()
    history.add(9 * S, Sample(shares={"hits": (50, 100)}, totals={"faults": 9}))
    assert history.during(8 * S, 9 * S) == {}
    history.add(10 * S, Sample(shares={"hits": (51, 104)}, totals={"faults": 10}))

    assert history.during(9 * S, 10 * S) == {"hits": 1 / 4, "faults": 1}


def test_a_counter_that_decreases_is_ignored() -> None:
    """The server was restarted."""
    history = SampleBuffer(1.0)
    history.add(S, Sample(shares={"hits": (50, 100)}, totals={"faults": 7}))
    history.add(2 * S, Sample(shares={"hits": (1, 200)}, totals={"faults": 3}))

    assert history.during(S, 2 * S) == {}


def test_totals_cover_the_intervals_that_end_during_the_request() -> None:
    """An interval that ended before is excluded, although its gauges are used."""
    history = SampleBuffer(1.0)
    for at_s, faults in enumerate([0, 5, 7, 20]):
        history.add(at_s * S, Sample(totals={"faults": faults}, gauges={"waiting": at_s}))

    assert history.during(round(0.5 * S), round(2.5 * S)) == {"faults": 7, "waiting": 2}
    assert history.during(round(1.2 * S), round(1.8 * S)) == {"waiting": 1}


def test_ten_minutes_of_samples_are_kept() -> None:
    """The beginning of a longer request is lost, and memory is bounded."""
    history = gauges(*((at_s, 1000 - at_s) for at_s in range(1000)))

    assert history.during(0, 1000 * S) == {"waiting": 1000 - 400}


@given(
    pairs=st.lists(st.tuples(st.integers(0, 10**18), st.integers(0, 10**18)), max_size=20),
    start=st.integers(0, 25),
    length=st.integers(0, 25),
)
def test_a_ratio_is_between_zero_and_one(
    pairs: list[tuple[int, int]], start: int, length: int
) -> None:
    """Or absent, for any counts that a server reports."""
    history = SampleBuffer(1.0)
    for at_s, pair in enumerate(pairs):
        history.add(at_s * S, Sample(shares={"hits": pair}))

    share = history.during(start * S, (start + length) * S).get("hits", 0)
    assert 0 <= share <= 1
