"""A window holds the latest 2,000 durations, and the threshold of the ones before them."""

from __future__ import annotations

from latspan._live.sampling._decisions import Window


def test_slower_share_counts_equal_durations() -> None:
    """A duration equal to most others is not among the slowest."""
    window = Window(0.5)
    for duration_ns in (1, 2, 2, 3):
        window.add(duration_ns)

    shares = [window.slower_share(duration_ns) for duration_ns in (0, 1, 2, 3, 4)]

    assert shares == [1.0, 1.0, 0.75, 0.25, 0.0]


def test_slower_share_of_an_empty_window_is_zero() -> None:
    """The first request of its kind is the slowest so far."""
    assert Window(0.5).slower_share(1) == 0.0


def test_the_oldest_duration_is_replaced() -> None:
    """After 2,000 more, the window no longer contains it."""
    window = Window(0.5)
    for _ in range(2_000):
        window.add(100)
    for _ in range(1_999):
        window.add(1)
    assert window.slower_share(50) == 1 / 2_000

    window.add(1)

    assert window.slower_share(50) == 0.0
    assert window.seen == 4_000


def test_a_duration_is_unusual_if_it_was_slow_one_window_ago() -> None:
    """After 2,000 slower requests, the new level is the usual one."""
    window = Window(0.02)
    for _ in range(2_000):
        window.add(100)
    for _ in range(1_900):
        window.add(200)
    assert window.is_unusual(201)
    assert window.is_unusual(150)

    for _ in range(200):
        window.add(200)

    assert not window.is_unusual(150)
    assert not window.is_unusual(200)
