"""
Validity of a load test: whether its numbers are the server's, or those of the load generator.

An invalid measurement is not a slow one: its numbers mean nothing, whatever they are. A server that
cannot keep up with the offered rate does not make it invalid: in an open loop the generator goes on
sending, and the durations from schedule grow, as queueing theory predicts.

Source: the load generation guide of inference-perf requires a median delay below 10 ms and a rate
very close to the specified one. LoadGen of MLPerf Inference declares a run invalid in the same way,
if it did not reach the duration or the number of queries that the rules demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from latspan._base.nanoseconds import NS_PER_S
from latspan._model.recording.folder import StepAccount
from latspan._model.text import count
from latspan._model.units import milliseconds

MIN_RATE_FRACTION: Final = 0.98
"""Least fraction of the offered rate at which requests must have been sent."""

MAX_CHANCE: Final = 0.10
"""Relative difference of the arrivals' rate from the load's above which a note is shown."""

MAX_LAG_S: Final = 0.010
"""Maximum p99 of the dispatch lag and of the event loop's lag, in seconds."""

MAX_LAG_OF_LIMIT: Final = 0.02
"""The same as a fraction of the lowest limit of a target; the highest maximum applies."""

MAX_LAG_OF_MEASURED: Final = 0.01
"""The same as a fraction of the shortest median of what is measured."""

MAX_MEDIAN_LAG: Final = 0.2
"""
Maximum median lag of the event loop, as a fraction of that of its p99: more would shift every
percentile.
"""

_IDLE: Final = 0.5
"""Fraction of a CPU below which the generator's own work is not what makes it late."""

MAX_BUSY: Final = 0.9
"""Maximum fraction of a CPU that the generator's thread may use."""

MAX_CACHE_DRIFT: Final = 0.1
"""Maximum change of the cached fraction of the input from the first third to the last."""

DRIFT_ERRORS: Final = 2.576
"""Number of standard errors that a change must exceed, for 99 % confidence."""

MAX_LITTLES_LAW_ERROR: Final = 0.15
"""Relative difference from Little's law above which a note is shown."""


class CachedInput(NamedTuple):
    """
    Fraction of the input tokens that the server had in its prompt cache.

    Args:
        first: Fraction in the first third of the requests.
        last: Fraction in the last third.
        error: Standard error of their difference.
    """

    first: float
    last: float
    error: float

    @property
    def drifted(self) -> bool:
        """Whether the fraction changed by more than 0.1, and beyond what chance explains."""
        change = abs(self.last - self.first)
        return change > max(MAX_CACHE_DRIFT, DRIFT_ERRORS * self.error)


@dataclass(frozen=True, slots=True)
class Caveat:
    """
    One thing that a reader of a measurement must know.

    Args:
        name: Stable name for programs.
        text: What was found, with its numbers.
        invalidates: Whether the measurement is invalid because of it.
        hint: How to avoid it; empty if there is no general way.
    """

    name: str
    text: str
    invalidates: bool
    hint: str = ""


def caveats(
    step: StepAccount,
    *,
    is_limited: bool = False,
    limits_ns: Sequence[int] = (),
    cached: CachedInput | None = None,
    measured_ns: float = 0.0,
    in_flight: tuple[float, float] | None = None,
    without_token: int = 0,
) -> Iterator[Caveat]:
    """
    Yield what must be known about one step of a measurement.

    Args:
        step: The step.
        is_limited: Whether the measurement limited the number of requests in flight.
        limits_ns: Limits of the targets.
        measured_ns: Shortest median of the measured times, in nanoseconds; 0 if there is none.
        cached: Cached input; ``None`` if the server does not report it.
        in_flight: Mean number in flight: observed, and predicted by Little's law.
        without_token: Number of completed responses without a token, if others have one.
    """
    most_lag_s = max(
        MAX_LAG_S,
        MAX_LAG_OF_LIMIT * min(limits_ns, default=0) / NS_PER_S,
        MAX_LAG_OF_MEASURED * measured_ns / NS_PER_S,
    )
    yield from _lateness(step, most_lag_s, is_limited=is_limited)
    yield from _own_load(step.generator, most_lag_s)
    if step.interrupted:
        missing = step.unsent + len(step.cut)
        yield Caveat(
            "cut_short",
            f"it was interrupted: {missing:,} of {step.intended:,} requests are missing",
            invalidates=True,
        )
    if cached is not None and cached.drifted:
        yield Caveat(
            "cache_drifted",
            f"the state of the prompt cache changed: {cached.first:.0%} of the input was cached in"
            f" the first third of the requests and {cached.last:.0%} in the last",
            invalidates=True,
            hint="use --cache cold, or a prompt set that is not repeated",
        )
    if without_token:
        yield Caveat(
            "without_token",
            f"{count(without_token, 'completed response')} had no token and count as failures for"
            " the time to the first token",
            invalidates=False,
        )
    yield from _chance(step)
    if in_flight is not None:
        observed, expected = in_flight
        if expected and abs(observed - expected) / expected > MAX_LITTLES_LAW_ERROR:
            yield Caveat(
                "not_stationary",
                f"the load was not steady: {observed:.1f} requests were in flight on average, but"
                f" a steady load would have {expected:.1f} (Little's law)",
                invalidates=False,
            )


def _chance(step: StepAccount) -> Iterator[Caveat]:
    """Yield a caveat if random arrivals came at another mean rate than the stated one."""
    stated, offered = step.load.get("rate_per_s"), step.offered_per_s
    # An interrupted step has too few arrivals for a rate, and has a caveat of its own.
    if not stated or offered is None or step.interrupted:
        return
    change = offered / stated - 1
    if abs(change) > MAX_CHANCE:
        word = "fewer" if change < 0 else "more"
        yield Caveat(
            "rate_by_chance",
            f"the random arrivals of this seed are {offered:.4g} requests/s, {abs(change):.0%}"
            f" {word} than the {stated:.4g} requests/s of the load",
            invalidates=False,
            hint="use --requests instead of --duration, or another --seed",
        )


def _lateness(step: StepAccount, most_lag_s: float, *, is_limited: bool) -> Iterator[Caveat]:
    generator = step.generator
    lag: Mapping[str, float] | None = generator.get("dispatch_lag")
    if lag is None:
        return
    if lag["p99"] > most_lag_s:
        yield Caveat(
            "dispatch_lag",
            "requests were sent late: the p99 of the dispatch lag is"
            f" {_against(lag['p99'], most_lag_s)}",
            invalidates=True,
            hint=_hint_for(generator),
        )
    offered, reached = step.offered_per_s, step.reached_per_s
    if offered is None or reached is None or reached >= MIN_RATE_FRACTION * offered:
        return
    # With a limit on the number in flight, the server may be the cause.
    if not is_limited or lag["p99"] > most_lag_s:
        yield Caveat(
            "rate_not_reached",
            f"requests were sent at {reached:.4g} per second instead of {offered:.4g}",
            invalidates=True,
            hint=_hint_for(generator),
        )


def _own_load(generator: Mapping[str, Any], most_lag_s: float) -> Iterator[Caveat]:
    lag: Mapping[str, float] = generator.get("loop_lag", {})
    most_median_s = MAX_MEDIAN_LAG * most_lag_s
    if lag.get("p99", 0) > most_lag_s:
        yield Caveat(
            "loop_lag",
            "the generator was late: the p99 of its event loop's lag is"
            f" {_against(lag['p99'], most_lag_s)}",
            invalidates=True,
            hint=_hint_for(generator),
        )
    elif lag.get("p50", 0) > most_median_s:
        yield Caveat(
            "loop_lag",
            "the generator was late: the median of its event loop's lag is"
            f" {_against(lag['p50'], most_median_s)}",
            invalidates=True,
            hint=_hint_for(generator),
        )
    busy = generator.get("busy", 0)
    if busy > MAX_BUSY:
        yield Caveat(
            "generator_busy",
            f"the generator used {busy:.0%} of a CPU, above {MAX_BUSY:.0%}",
            invalidates=True,
            hint=_GENERATOR,
        )


_GENERATOR: Final = (
    "give this process a CPU of its own, or lower the load; several processes can share a load"
)


def _hint_for(generator: Mapping[str, Any]) -> str:
    """Return how to avoid lateness: whether the generator or other programs use the processor."""
    busy = generator.get("busy")
    if busy is None or busy >= _IDLE:
        return _GENERATOR
    return (
        f"other programs on this machine use the processor (the generator used {busy:.0%} of a"
        " CPU): end them, or measure from a machine that does nothing else"
    )


def _against(value_s: float, limit_s: float) -> str:
    return f"{milliseconds(value_s * NS_PER_S)}, above {milliseconds(limit_s * NS_PER_S)}"
