"""What one source said, instant by instant, and what that makes of the time of a request."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from latspan._scraping._newest import newest
from latspan._units import NS_PER_S

__all__ = ["Reading", "SampleBuffer"]

_KEPT_S: Final = 600
_KEPT_AT_MOST: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """
    What a source says at one instant, by the attribute that it becomes.

    Args:
        gauges: What is so now.
        shares: A part and the whole of it, each counted since the source began.
        totals: What was counted since the source began.
    """

    gauges: Mapping[str, float] = field(default_factory=dict[str, float])
    shares: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    totals: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class _Sample:
    """A reading, of which what is counted is the difference from the one before it."""

    at_ns: int
    reading: Reading


class SampleBuffer:
    """
    The latest samples of one source.

    One thread adds, any other asks.

    Args:
        interval_s: Seconds between two samples, for how many are kept: those of ten minutes.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_ns = round(interval_s * NS_PER_S)
        kept = min(_KEPT_AT_MOST, max(1, round(_KEPT_S / interval_s)))
        self._samples: deque[_Sample] = deque(maxlen=kept)
        self._before: Reading | None = None

    def add(self, at_ns: int, reading: Reading) -> None:
        """
        Take in what the source said.

        Args:
            at_ns: When, monotonic nanoseconds; later than before.
            reading: What.
        """
        self._samples.append(_Sample(at_ns, _since(self._before, reading)))
        self._before = reading

    def interrupted(self) -> None:
        """Note that the source said nothing: what it counts next is of nobody knows when."""
        self._before = None

    def during(self, start_ns: int, done_ns: int) -> dict[str, float]:
        """
        Return what was so while something lasted, by attribute.

        Of gauges it is the greatest, and of shares that of all that was counted, over the samples
        from one interval before the start to the end. Totals are what was counted in the intervals
        that ended after the start.

        Args:
            start_ns: Monotonic nanoseconds.
            done_ns: Monotonic nanoseconds.
        """
        found: dict[str, float] = {}
        counted: dict[str, tuple[float, float]] = {}
        first_ns = start_ns - self._interval_ns
        for sample in newest(self._samples, lambda sample: sample.at_ns >= first_ns):
            if sample.at_ns > done_ns:
                continue
            reading = sample.reading
            for name, value in reading.gauges.items():
                found[name] = max(value, found.get(name, value))
            for name, (part, whole) in reading.shares.items():
                part_before, whole_before = counted.get(name, (0, 0))
                counted[name] = part_before + part, whole_before + whole
            if sample.at_ns > start_ns:
                for name, value in reading.totals.items():
                    found[name] = found.get(name, 0) + value
        # A part that exceeds its whole was not read at the same instant.
        shares = {name: min(part / whole, 1.0) for name, (part, whole) in counted.items() if whole}
        return {**found, **shares}


def _since(before: Reading | None, now: Reading) -> Reading:
    """Return a reading whose counts are those since ``before``."""
    if before is None:
        return Reading(gauges=now.gauges)
    shares = {
        name: (part - before.shares[name][0], whole - before.shares[name][1])
        for name, (part, whole) in now.shares.items()
        if name in before.shares
    }
    totals = {
        name: value - before.totals[name]
        for name, value in now.totals.items()
        if name in before.totals
    }
    return Reading(
        gauges=now.gauges,
        # A count that went back began again, with the server or the process.
        shares={name: pair for name, pair in shares.items() if min(pair) >= 0},
        totals={name: value for name, value in totals.items() if value >= 0},
    )
