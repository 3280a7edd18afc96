"""Buffer of the samples of one source, and their summary over the time of a request."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from latspan._base.nanoseconds import NS_PER_S
from latspan._base.newest import newest

_KEPT_S: Final = 600
_MAX_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """
    Values of a source at one instant, by the attribute that they are recorded as.

    Args:
        gauges: Current values.
        shares: Counts of a part and of the whole, both since the source started.
        totals: Counts since the source started.
    """

    gauges: Mapping[str, float] = field(default_factory=dict[str, float])
    shares: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    totals: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class _Sample:
    """Sample whose counts are differences from the previous reading."""

    at_ns: int
    reading: Sample


class SampleBuffer:
    """
    Latest samples of one source.

    One thread adds samples; any other thread may read them.

    Args:
        interval_s: Seconds between two samples. The samples of the last ten minutes are kept.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_ns = round(interval_s * NS_PER_S)
        kept = min(_MAX_KEPT, max(1, round(_KEPT_S / interval_s)))
        self._samples: deque[_Sample] = deque(maxlen=kept)
        self._before: Sample | None = None

    def add(self, at_ns: int, reading: Sample) -> None:
        """
        Add a reading of the source.

        Args:
            at_ns: Time of the reading, monotonic nanoseconds; later than that of the previous one.
            reading: The reading.
        """
        self._samples.append(_Sample(at_ns, _since(self._before, reading)))
        self._before = reading

    def interrupted(self) -> None:
        """
        Record that a reading is missing.

        The counts of the next reading are then not used, as the time they cover is not known.
        """
        self._before = None

    def during(self, start_ns: int, done_ns: int) -> dict[str, float]:
        """
        Return the summary of the samples during a period, by attribute.

        For a gauge it is the greatest value, and for a share the sum of the parts divided by the
        sum of the wholes, over the samples from one interval before the start to the end. A total
        is the sum of the counts in the intervals that ended after the start and by the end.

        Args:
            start_ns: Start of the period, monotonic nanoseconds.
            done_ns: End of the period, monotonic nanoseconds.
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
        # A part can exceed its whole, because the two were not read at the same instant.
        shares = {name: min(part / whole, 1.0) for name, (part, whole) in counted.items() if whole}
        return {**found, **shares}


def _since(before: Sample | None, now: Sample) -> Sample:
    """Return a reading whose counts are the differences from ``before``."""
    if before is None:
        return Sample(gauges=now.gauges)
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
    return Sample(
        gauges=now.gauges,
        # A counter that decreased was reset by a restart of the server or the process.
        shares={name: pair for name, pair in shares.items() if min(pair) >= 0},
        totals={name: value for name, value in totals.items() if value >= 0},
    )
