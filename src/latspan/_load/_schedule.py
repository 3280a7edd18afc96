"""
Schedules: when each request of a measurement is due, computed before the first one is sent.

In an **open loop** requests arrive whether earlier ones have ended or not, as users do. Its
schedule is a list of instants. In a **closed loop** a fixed number of requests is in flight, and
the next one is sent when one ends; its schedule has no instants.

All randomness comes from ``random.Random(seed)``, whose sequences Python keeps stable, so a seed
gives the same instants on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, repeat
from typing import Any, Final

from latspan._base.nanoseconds import NS_PER_S
from latspan._model.goals import Arrivals
from latspan.errors import ConfigError

REPLAY: Final = "replay"
_MIN_ARRIVALS: Final = 2
"""Number of arrivals from which they have a rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """
    When the requests of a measurement are due.

    Args:
        pattern: Pattern of the arrivals, or ``replay``.
        seed: Seed of the gaps.
        rate_per_s: Mean number of requests per second; ``None`` for a closed loop.
        concurrency: Number of requests in flight; ``None`` for an open loop.
        burstiness: Shape of the gamma distribution; ``None`` for every other pattern.
        speed: Factor by which a replay is faster than the recorded requests were.
        offsets_ns: Instants at which requests are due, in nanoseconds since the beginning,
            ascending; empty for a closed loop.
    """

    pattern: str
    seed: int = 0
    rate_per_s: float | None = None
    concurrency: int | None = None
    burstiness: float | None = None
    speed: float | None = None
    offsets_ns: tuple[int, ...] = field(default=(), repr=False)

    @property
    def is_open(self) -> bool:
        """Whether requests are sent on a schedule, independent of earlier ones."""
        return self.concurrency is None

    def within(self, first: int, duration_ns: int) -> int:
        """Return the number of requests that are due less than ``duration_ns`` after ``first``."""
        end_ns = self.offsets_ns[first] + duration_ns
        return sum(offset < end_ns for offset in self.offsets_ns[first:])

    def paced(self, first: int, count: int) -> Schedule:
        """
        Return the schedule in which ``count`` requests arrive at exactly the mean rate.

        The gaps between them are scaled by one factor, so that they take ``(count - 1) / rate``.
        What arrives afterwards is moved, and keeps its gaps.

        A Poisson process stays one, given the number of its arrivals in that time: the instants
        between the first and the last one are uniform and independent, sorted. Gamma gaps keep
        their shape. Without a fixed time, the rate of 100 arrivals is random by 10 %.

        Args:
            first: Index of the first of them.
            count: Number of them; fewer than two have no rate.

        Source: Ross, Stochastic Processes, 2nd edition, theorem 2.3.1: given that ``n`` events of a
        Poisson process occurred in a time, their instants are the order statistics of ``n`` uniform
        ones.
        """
        offsets = self.offsets_ns
        last = first + count - 1
        if not self.rate_per_s or count < _MIN_ARRIVALS:
            return self
        begin, end = offsets[first], offsets[last]
        exact_ns = round((count - 1) * NS_PER_S / self.rate_per_s)
        # Few gamma gaps may all be shorter than a nanosecond; then there is no shape to keep.
        drawn = offsets[first:last] if end > begin else range(begin, begin + count - 1)
        span = end - begin or count - 1
        # Whole numbers, so that the result is the same everywhere and the last one is exact.
        scaled = [begin + (offset - begin) * exact_ns // span for offset in drawn]
        moved = [offset - end + begin + exact_ns for offset in offsets[last:]]
        return replace(self, offsets_ns=(*offsets[:first], *scaled, *moved))

    def conditions(self) -> dict[str, Any]:
        """Return what defines the schedule, for the conditions of a recording."""
        known = {
            "pattern": self.pattern,
            "rate_per_s": self.rate_per_s,
            "concurrency": self.concurrency,
            "burstiness": self.burstiness,
            "speed": self.speed,
        }
        return {name: value for name, value in known.items() if value is not None}


def gaps_ns(
    pattern: Arrivals, rate_per_s: float, *, seed: int, burstiness: float = 1.0
) -> Iterator[int]:
    """
    Yield the gaps before each arrival, in nanoseconds, without end.

    Args:
        pattern: Pattern of an open loop.
        rate_per_s: Mean number of arrivals per second, more than 0.
        seed: Seed.
        burstiness: Shape k of the gamma distribution, more than 0. The coefficient of variation of
            the gaps is 1/√k: bursts below 1, Poisson at 1, more even above.

    Source: vLLM's ``bench serve --burstiness``, which has the same definition.
    """
    mean_ns = NS_PER_S / rate_per_s
    if pattern is Arrivals.CONSTANT:
        yield from repeat(round(mean_ns))
    # The same instants on every machine are the purpose; nothing here is secret.
    source = random.Random(seed)  # noqa: S311
    while True:
        if pattern is Arrivals.POISSON:
            yield round(source.expovariate(1.0) * mean_ns)
        else:
            yield round(source.gammavariate(burstiness, 1 / burstiness) * mean_ns)


def open_loop(
    pattern: Arrivals, rate_per_s: float, count: int, *, seed: int = 0, burstiness: float = 1.0
) -> Schedule:
    """
    Return an open loop of ``count`` requests; the first one is due at once.

    Args:
        pattern: Pattern of an open loop.
        rate_per_s: Mean number of requests per second, more than 0.
        count: Number of requests, at least 1.
        seed: Seed of the gaps.
        burstiness: Shape of the gamma distribution, more than 0.
    """
    gaps = gaps_ns(pattern, rate_per_s, seed=seed, burstiness=burstiness)
    return Schedule(
        pattern=pattern,
        seed=seed,
        rate_per_s=rate_per_s,
        burstiness=burstiness if pattern is Arrivals.GAMMA else None,
        offsets_ns=tuple(accumulate(islice(gaps, count - 1), initial=0)),
    )


def closed_loop(concurrency: int) -> Schedule:
    """Return a closed loop with ``concurrency`` requests in flight."""
    return Schedule(pattern=Arrivals.CLOSED, concurrency=concurrency)


def replayed(starts_epoch_ns: Sequence[int], *, speed: float = 1.0) -> Schedule:
    """
    Return an open loop with the gaps between recorded requests.

    Args:
        starts_epoch_ns: Starts of the recorded requests, Unix nanoseconds, in any order.
        speed: Factor by which it is faster: 2 halves every gap, which doubles the rate.

    Raises:
        ConfigError: There are fewer than two requests, or all started at once.
    """
    starts = sorted(starts_epoch_ns)
    if len(starts) < _MIN_ARRIVALS or starts[-1] == starts[0]:
        raise ConfigError(
            f"the arrivals of {len(starts)} recorded requests cannot be replayed",
            hint="use a recording with two or more requests that began at different times",
        )
    offsets = tuple(round((start - starts[0]) / speed) for start in starts)
    return Schedule(
        pattern=REPLAY,
        rate_per_s=(len(offsets) - 1) * NS_PER_S / offsets[-1],
        speed=speed,
        offsets_ns=offsets,
    )
