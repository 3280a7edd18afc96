"""A window remembers the latest 2,000 durations, and what was slow before them."""

from __future__ import annotations

from latspan._sampling._window import Window


def test_how_many_were_as_slow() -> None:
    """Equal ones count: what is as slow as everything is not among the slowest."""
    window = Window(0.5)
    for duration_ns in (1, 2, 2, 3):
        window.add(duration_ns)

    shares = [window.slower_share(duration_ns) for duration_ns in (0, 1, 2, 3, 4)]

    assert shares == [1.0, 1.0, 0.75, 0.25, 0.0]


def test_of_none_none_were_slower() -> None:
    """The first of its kind is the slowest so far."""
    assert Window(0.5).slower_share(1) == 0.0


def test_the_oldest_goes() -> None:
    """After 2,000 further ones nothing of it is left."""
    window = Window(0.5)
    for _ in range(2_000):
        window.add(100)
    for _ in range(1_999):
        window.add(1)
    assert window.slower_share(50) == 1 / 2_000

    window.add(1)

    assert window.slower_share(50) == 0.0
    assert window.seen == 4_000


def test_unusual_is_what_was_slow_a_window_ago() -> None:
    """After 2,000 slower ones the new level is usual."""
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
