"""
Arrivals: when each request of a measurement is due, computed before the first one is sent.

In an **open loop** requests arrive whether earlier ones have ended or not, as users do. Its
schedule is a list of instants. In a **closed loop** a fixed number of requests is in flight, and
the next one is sent when one ends; its schedule has no instants.

All randomness comes from ``random.Random(seed)``, whose sequences Python keeps stable, so a seed
gives the same instants on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from latspan._units import NS_PER_S
from latspan.errors import ConfigError

__all__ = ["Arrivals", "Shape", "closed_loop", "gaps_of", "open_loop", "replayed"]


class Shape(StrEnum):
    """Distribution of the gaps between arrivals."""

    POISSON = "poisson"
    """Independent users: exponential gaps, coefficient of variation (CV) 1."""
    CONSTANT = "constant"
    """Equal gaps, CV 0."""
    GAMMA = "gamma"
    """
    Gamma gaps. With the burstiness b, their CV is 1/√b: below 1 arrivals come in bursts, 1 is
    Poisson, above 1 they are more even. Source: vLLM's ``bench serve --burstiness``.
    """
    REPLAY = "replay"
    """Gaps of recorded requests."""
    CLOSED = "closed"
    """No schedule: a fixed number of requests is in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """
    When the requests of a measurement are due.

    Args:
        shape: Distribution of the gaps.
        seed: Seed of the gaps.
        rate_per_s: Requests per second, of which the gaps are the mean; ``None`` for a closed loop.
        in_flight: Number of requests in flight; ``None`` for an open loop.
        burstiness: Shape parameter of gamma gaps, otherwise 1.
        offsets_ns: Instants at which requests are due, in nanoseconds since the first dispatch,
            ascending; empty for a closed loop.
        speed: Factor by which a replay is faster than the recorded requests were.
    """

    shape: Shape
    seed: int = 0
    rate_per_s: float | None = None
    in_flight: int | None = None
    burstiness: float = 1.0
    offsets_ns: tuple[int, ...] = ()
    speed: float = 1.0

    @property
    def is_open(self) -> bool:
        """Whether requests are sent on a schedule, whatever happens to earlier ones."""
        return self.shape is not Shape.CLOSED

    @property
    def load(self) -> str:
        """Load in one phrase, for example ``5 requests/s, poisson (open loop)``."""
        if self.in_flight is not None:
            return f"{self.in_flight:,} in flight (closed loop)"
        shape = self.shape.value
        if self.shape is Shape.GAMMA:
            shape = f"gamma with burstiness {self.burstiness:g}"
        if self.shape is Shape.REPLAY:
            shape = f"replay at {self.speed:g} times the recorded speed"
        return f"{self.rate_per_s:,.4g} requests/s, {shape} (open loop)"


def gaps_of(shape: Shape, rate_per_s: float, *, seed: int, burstiness: float = 1.0) -> Iterator[int]:
    """
    Yield the gaps before each arrival, in nanoseconds, without end.

    Args:
        shape: Poisson, constant or gamma.
        rate_per_s: Mean number of arrivals per second, more than 0.
        seed: Seed.
        burstiness: Shape parameter of gamma gaps, more than 0.
    """
    mean_ns = NS_PER_S / rate_per_s
    # The same instants on every machine are the purpose; nothing here is secret.
    random_numbers = random.Random(seed)  # noqa: S311
    while True:
        if shape is Shape.CONSTANT:
            yield round(mean_ns)
        elif shape is Shape.POISSON:
            yield round(random_numbers.expovariate(1.0) * mean_ns)
        else:
            yield round(random_numbers.gammavariate(burstiness, 1 / burstiness) * mean_ns)


def open_loop(
    shape: Shape,
    rate_per_s: float,
    count: int,
    *,
    seed: int = 0,
    burstiness: float = 1.0,
) -> Arrivals:
    """
    Return an open loop of ``count`` requests.

    Args:
        shape: Poisson, constant or gamma.
        rate_per_s: Mean number of requests per second, more than 0.
        count: Number of requests.
        seed: Seed of the gaps.
        burstiness: Shape parameter of gamma gaps, more than 0.
    """
    due_ns = 0
    offsets: list[int] = []
    gaps = gaps_of(shape, rate_per_s, seed=seed, burstiness=burstiness)
    for _ in range(count):
        offsets.append(due_ns)
        due_ns += next(gaps)
    return Arrivals(
        shape=shape,
        seed=seed,
        rate_per_s=rate_per_s,
        burstiness=burstiness,
        offsets_ns=tuple(offsets),
    )


def closed_loop(in_flight: int) -> Arrivals:
    """Return a closed loop with ``in_flight`` requests in flight."""
    return Arrivals(shape=Shape.CLOSED, in_flight=in_flight)


_FEWEST_REPLAYED: Final = 2


def replayed(starts_epoch_ns: Sequence[int], *, speed: float = 1.0) -> Arrivals:
    """
    Return an open loop with the gaps between recorded requests.

    Args:
        starts_epoch_ns: Starts of the recorded requests, Unix nanoseconds, in any order.
        speed: Factor by which it is faster: 2 halves every gap, which doubles the rate.

    Raises:
        ConfigError: There are fewer than two requests, or all started at once.
    """
    starts = sorted(starts_epoch_ns)
    if len(starts) < _FEWEST_REPLAYED or starts[-1] == starts[0]:
        raise ConfigError(
            f"arrivals cannot be replayed from {len(starts)} recorded requests",
            hint="give a recording with two or more requests at different times",
        )
    offsets = tuple(round((start - starts[0]) / speed) for start in starts)
    return Arrivals(
        shape=Shape.REPLAY,
        rate_per_s=(len(offsets) - 1) * NS_PER_S / offsets[-1],
        offsets_ns=offsets,
        speed=speed,
    )
