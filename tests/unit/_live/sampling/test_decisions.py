"""Traces that failed, were over the limit, slow or randomly selected are kept; others are not."""

from __future__ import annotations

from random import Random

from latspan._live.sampling import Decisions, Ended
from latspan._live.sampling._decisions import MAX_WINDOWS

CALLS = ("call", "chat")


def settled(*, slow_ns: int | None = None) -> Decisions:
    """Return decisions after 4,000 requests of 1,000 to 2,000 ns."""
    verdicts = Decisions(0.05, slow_ns)
    random = Random(1)  # noqa: S311 - a simulation
    for _ in range(4_000):
        verdicts.keeps(Ended(CALLS, random.randint(1_000, 2_000), random.randint(100, 200)))
    return verdicts


def test_traces_that_must_be_kept_do_not_count_against_the_ratio() -> None:
    """All of them are kept, whatever their number."""
    verdicts = settled()

    kept = [verdicts.keeps(Ended(CALLS, 1_000, kept=True)) for _ in range(1_000)]

    assert all(kept)


def test_slow_requests_are_kept_and_others_are_not() -> None:
    """They are compared with the latest similar requests."""
    verdicts = settled()

    assert verdicts.keeps(Ended(CALLS, 2_001))
    assert not verdicts.keeps(Ended(CALLS, 1_500))


def test_a_late_first_token_is_kept() -> None:
    """Even if the whole response took no longer than usual."""
    verdicts = settled()

    assert verdicts.keeps(Ended(CALLS, 1_500, 201))
    assert not verdicts.keeps(Ended(CALLS, 1_500, 150))


def test_requests_over_the_limit_are_kept() -> None:
    """All of them, whatever their number."""
    verdicts = settled(slow_ns=1_499)

    assert all(verdicts.keeps(Ended(CALLS, 1_500)) for _ in range(100))
    assert not verdicts.keeps(Ended(CALLS, 1_499))


def test_requests_are_compared_with_similar_requests() -> None:
    """A duration that is slow for a short response is fast for a long one."""
    verdicts = settled()
    for duration_ns in range(100, 400):
        verdicts.keeps(Ended(("call", "short"), duration_ns))

    assert verdicts.keeps(Ended(("call", "short"), 500))
    assert not verdicts.keeps(Ended(CALLS, 1_000))


def test_too_many_inference_paths_share_a_window() -> None:
    """Memory is bounded for any number of names."""
    verdicts = Decisions(0.05)

    for number in range(1_000):
        verdicts.keeps(Ended(("call", str(number)), number))

    assert len(verdicts._windows) == MAX_WINDOWS + 1  # pyright: ignore[reportPrivateUsage]


def test_random_selection_depends_only_on_the_trace_id() -> None:
    """Every process selects the same traces: one twentieth of the ratio, 1 in 400."""
    one, another = Decisions(0.05), Decisions(0.05)
    random = Random(1)  # noqa: S311 - a simulation
    ids = [random.getrandbits(128) for _ in range(100_000)]

    drawn = [one.by_chance(trace_id) for trace_id in ids]

    assert drawn == [another.by_chance(trace_id & ((1 << 56) - 1)) for trace_id in ids]
    assert 200 < sum(drawn) < 300
