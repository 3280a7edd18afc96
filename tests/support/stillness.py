"""
Whether the machine lets its programs run: what a measurement of milliseconds needs.

A processor that is given to somebody else makes every clock of a request late, the server's and the
client's alike, and nothing of that is an error of what reads them. So what holds a median of
milliseconds asks here first; the answer knows nothing of what was measured.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

import pytest

__all__ = ["when_still"]

Taken = TypeVar("Taken")

_LOOK_NS: Final = 200_000_000
_GAP_NS: Final = 200_000
"""Between two readings of the clock lies a tenth of a microsecond, or somebody else's turn."""
_STILL: Final = 0.1
"""At most a tenth of the time: a median has no more than half of its requests to lose."""
_LOOKS: Final = 10
_TAKES: Final = 4


def when_still(take: Callable[[], Taken]) -> Taken:
    """
    Return what ``take`` measures while nobody else takes the processors, or skip the test.

    It is asked again where the machine was not still before and after, whatever it measured.

    Args:
        take: Measures; called at most four times.
    """
    shares: list[float] = []
    for _ in range(_TAKES):
        _await_stillness(shares)
        taken = take()
        if _look(shares):
            return taken
    return _skip(shares)


def _await_stillness(shares: list[float]) -> None:
    for _ in range(_LOOKS):
        if _look(shares):
            return
    _skip(shares)


def _look(shares: list[float]) -> bool:
    """Note the share of a processor's time that others take now, and say whether it is small."""
    shares.append(_share_taken())
    return shares[-1] <= _STILL


def _skip(shares: list[float]) -> NoReturn:
    pytest.skip(f"others took up to {max(shares):.0%} of a processor's time, {len(shares)} looks")


def _share_taken() -> float:
    """Return the share of its time, 0 to 1, that a program which reads the clock did not run."""
    spinner = [sys.executable, "-I", __file__]
    return float(subprocess.run(spinner, check=True, capture_output=True, text=True).stdout)


def _spin() -> float:
    began = last = time.perf_counter_ns()
    taken = 0
    while last - began < _LOOK_NS:
        now = time.perf_counter_ns()
        if now - last > _GAP_NS:
            taken += now - last
        last = now
    return taken / (last - began)


if __name__ == "__main__":
    sys.stdout.write(f"{_spin()}\n")
