"""An interrupt arrives, wherever the main thread happens to be when it comes."""

from __future__ import annotations

import signal
import sys
import threading
import weakref
from collections.abc import Callable

import pytest

from latspan.cli._signals import Terminated, interrupts_raise

DEADLINE_S = 30

INTERRUPTS = pytest.mark.parametrize(
    ("number", "interrupt"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)],
    ids=["SIGINT", "SIGTERM"],
)


class Finalised:
    """Does something where an exception is raised at nobody."""

    def __init__(self, last: Callable[[], object]) -> None:
        self._last = last

    def __del__(self) -> None:
        self._last()


class Referent:
    """Something to refer to."""


@interrupts_raise()
def interrupted(*what: Callable[[], object]) -> None:
    """Do one thing after the other, and then be where an exception is raised at somebody."""
    for do in what:
        do()
    wait()


def wait() -> None:
    """Wait for an interrupt; the time is that of a test that fails."""
    threading.Event().wait(DEADLINE_S)


@pytest.fixture
def ignored(monkeypatch: pytest.MonkeyPatch) -> list[type[BaseException]]:
    """Collect what Python says that it ignored."""
    types: list[type[BaseException]] = []

    def hear(unraisable: sys.UnraisableHookArgs) -> None:
        types.append(unraisable.exc_type)

    monkeypatch.setattr(sys, "unraisablehook", hear)
    return types


@INTERRUPTS
def test_an_interrupt_in_a_finaliser_comes_after_it(
    number: int, interrupt: type[BaseException], ignored: list[type[BaseException]]
) -> None:
    """Python ignores it there and says so; neither happens."""

    def finalise() -> None:
        Finalised(lambda: signal.raise_signal(number))

    with pytest.raises(interrupt) as raised:
        interrupted(finalise)

    assert raised.type is interrupt
    assert ignored == []


@INTERRUPTS
def test_an_interrupt_in_a_weak_references_callback_comes_after_it(
    number: int, interrupt: type[BaseException], ignored: list[type[BaseException]]
) -> None:
    """Importing has such callbacks."""
    referents = [Referent()]
    reference = weakref.ref(referents[0], lambda _: signal.raise_signal(number))

    with pytest.raises(interrupt) as raised:
        interrupted(referents.clear)

    assert reference() is None
    assert raised.type is interrupt
    assert ignored == []


def test_an_interrupt_may_be_lost_again_and_again(ignored: list[type[BaseException]]) -> None:
    """A second finaliser gets what the first one lost, and loses it too."""
    with pytest.raises(Terminated):
        interrupted(lose_sigterm, lambda: Finalised(wait))

    assert ignored == []


def lose_sigterm() -> None:
    Finalised(lambda: signal.raise_signal(signal.SIGTERM))


def test_an_interrupt_that_arrived_is_not_raised_again() -> None:
    """What it unwinds, servers to stop, is left in peace."""
    timers: list[tuple[float, float]] = []

    def unwind() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            timers.append(signal.getitimer(signal.ITIMER_REAL))

    with pytest.raises(Terminated):
        interrupted(unwind)

    assert timers == [(0.0, 0.0)]


def test_other_unraisable_exceptions_are_reported_as_before(
    ignored: list[type[BaseException]],
) -> None:
    """A finaliser that fails is the business of whoever asked to hear of it."""
    with interrupts_raise():
        Finalised(lambda: int("none"))

    assert ignored == [ValueError]


def test_everything_is_given_back() -> None:
    """After the block handlers, hook and timer are those from before it."""

    def now() -> tuple[object, ...]:
        return (
            signal.getsignal(signal.SIGTERM),
            signal.getsignal(signal.SIGALRM),
            signal.getitimer(signal.ITIMER_REAL),
            sys.unraisablehook,
        )

    before = now()

    with pytest.raises(Terminated):
        interrupted(lose_sigterm)

    assert now() == before
