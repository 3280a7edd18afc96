"""Pauses grow until something is taken, and are never shorter than the receiver asked for."""

from __future__ import annotations

from latspan._live.otel.export import BackOff
from latspan.testing import ManualClock


def pause_s(clock: ManualClock, pauses: BackOff) -> int:
    """Return after how many whole seconds it is over."""
    waited = 0
    while not pauses.is_over():
        clock.advance(1_000_000_000)
        waited += 1
    return waited


def test_pauses_double_up_to_a_minute() -> None:
    """And begin anew when something was taken."""
    clock = ManualClock()
    back_off = BackOff(clock, spread=lambda least, most: (least + most) / 2)
    assert back_off.is_over()
    seen: list[int] = []
    for _ in range(8):
        back_off.refused()
        seen.append(pause_s(clock, back_off))
    back_off.accepted()
    back_off.refused()

    assert seen == [1, 2, 4, 8, 16, 32, 60, 60]
    assert pause_s(clock, back_off) == 1


def test_what_is_taken_within_a_pause_ends_it() -> None:
    """A flush came early and got through: there is no reason to keep the others waiting."""
    back_off = BackOff(ManualClock())
    for _ in range(8):
        back_off.refused(retry_after_s=90)

    back_off.accepted()

    assert (back_off.is_over(), back_off.is_over(only_requested=True)) == (True, True)


def test_pauses_are_spread_by_a_fifth() -> None:
    """A fleet that was refused together does not come back together."""
    clock = ManualClock()
    asked: list[tuple[float, float]] = []

    def spread(least: float, most: float) -> float:
        asked.append((least, most))
        return most

    back_off = BackOff(clock, spread)
    back_off.refused()
    clock.advance(1_199_999_999)
    assert not back_off.is_over()
    clock.advance(1)

    assert back_off.is_over()
    assert asked == [(0.8, 1.2)]


def test_a_receiver_may_ask_for_longer() -> None:
    """Up to ten minutes; a shorter one is no reason to come sooner."""
    clock = ManualClock()
    back_off = BackOff(clock, spread=lambda least, most: (least + most) / 2)
    seen: list[int] = []
    for retry_after_s in (0.25, 90, 86_400):
        back_off.refused(retry_after_s)
        seen.append(pause_s(clock, back_off))

    assert seen == [1, 90, 600]


def test_a_flush_ends_every_pause_except_a_requested_one() -> None:
    """The other is a guess."""
    clock = ManualClock()
    back_off = BackOff(clock)
    back_off.refused()
    assert (back_off.is_over(), back_off.is_over(only_requested=True)) == (False, True)

    back_off.refused(retry_after_s=5)

    assert (back_off.is_over(), back_off.is_over(only_requested=True)) == (False, False)
