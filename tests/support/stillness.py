"""
Check that other programs leave the processors free while milliseconds are measured.

If another program uses a processor, all times of a request are late, at the server and at the
client, and that is not an error of latspan. A test that checks a median of a few milliseconds
therefore measures inside `when_still`. The check does not depend on the measured values.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

import pytest

Taken = TypeVar("Taken")

_LOOK_NS: Final = 200_000_000
_GAP_NS: Final = 200_000
"""Two readings of the clock are 0.1 µs apart, unless another program ran in between."""
_STILL: Final = 0.1
"""Maximum share for other programs: a median tolerates at most half of its requests being late."""
_RECENT_S: Final = 0.2
"""A look at the end of one measurement counts for the start of the next, if it is this recent."""
_LOOKS: Final = 10
_LOOKS_WHILE_BUSY: Final = 3
"""Number of looks before a test is skipped: fewer if the test before was skipped too."""
_TAKES: Final = 4


def when_still(take: Callable[[], Taken]) -> Taken:
    """
    Return what ``take`` measures while the processors are free, or skip the test.

    The measurement is repeated if the processors were not free before and after it, whatever its
    result.

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


_last_still_s = -math.inf
_is_busy = False
"""Whether the last wait for stillness was in vain."""


def _await_stillness(shares: list[float]) -> None:
    global _is_busy
    if time.monotonic() - _last_still_s < _RECENT_S:
        return
    looks = _LOOKS_WHILE_BUSY if _is_busy else _LOOKS
    _is_busy = not any(_look(shares) for _ in range(looks))
    if _is_busy:
        _skip(shares)


def _look(shares: list[float]) -> bool:
    """Record the share of time that other programs take now; return whether it is small."""
    global _last_still_s
    shares.append(_share_taken())
    is_still = shares[-1] <= _STILL
    _last_still_s = time.monotonic() if is_still else -math.inf
    return is_still


def _skip(shares: list[float]) -> NoReturn:
    pytest.skip(f"others took up to {max(shares):.0%} of a processor's time, {len(shares)} looks")


def _share_taken() -> float:
    """Return the share of time, 0 to 1, in which a program that reads the clock did not run."""
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
