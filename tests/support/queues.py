"""
Systems whose capacity is known: queues with closed forms, and model servers that batch.

None of them uses the simulation of ``latspan capacity``. Queues with slots are computed request by
request from the instants at which slots become free, processor sharing event by event, and the
servers that batch token by token in ``tests/support/simulation``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan import Recording
from latspan._study.capacity import Rung
from latspan.integrations import Outcome
from latspan.testing import RequestRecord
from support.measurements import call, load_test, step
from support.simulation import HEALTHY, Scenario, requests_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

_WARMUP: Final = 20
_OVERLOADS: Final = 3

Draw = Callable[[np.random.Generator, int], "Values"]


def exponential(random: np.random.Generator, size: int) -> Values:
    """Return values with mean 1 and a coefficient of variation of 1."""
    return random.exponential(1.0, size)


def constant(_: np.random.Generator, size: int) -> Values:
    """Return ones."""
    return np.ones(size)


def lognormal(sigma: float) -> Draw:
    """Return a distribution with mean 1 and that standard deviation of the logarithm."""
    return lambda random, size: random.lognormal(-sigma * sigma / 2, sigma, size)


def bursts(shape: float) -> Draw:
    """Return a gamma distribution with mean 1 and that shape."""
    return lambda random, size: random.gamma(shape, 1 / shape, size)


@dataclass(frozen=True, slots=True)
class System:
    """
    A system whose capacity is known.

    Args:
        name: Name in the table.
        slots: Number of servers; 0 for a server that batches.
        work: Distribution of the service time, with mean 1 s.
        gaps: Distribution of the gaps, with mean 1.
        shared: Whether the servers share their speed among all requests: processor sharing.
        scenario: Server that batches.
    """

    name: str
    slots: int = 0
    work: Draw = exponential
    gaps: Draw = exponential
    shared: bool = False
    scenario: Scenario = field(default=HEALTHY)

    def capacity(self, seed: int) -> float:
        """Return the throughput that it sustains; measured in long overloads if it batches."""
        if self.slots:
            return float(self.slots)
        overload = replace(self.scenario, requests=6_000, rate_per_s=1e4, in_request=False)
        return float(np.mean([_throughput(overload, seed + run) for run in range(_OVERLOADS)]))

    def rung(self, rate_per_s: float, seed: int, size: int) -> Rung:
        """Return a rung of that many measured requests."""
        random = np.random.default_rng(seed)
        total = _WARMUP + 2 * size
        if self.slots:
            due = np.cumsum(self.gaps(random, total)) / rate_per_s
            work = self.work(random, total)
            end = _shared(due, work, self.slots) if self.shared else _queued(due, work, self.slots)
        else:
            made = requests_of(replace(self.scenario, requests=total, rate_per_s=rate_per_s), seed)
            due = np.array([(each.start_ns - each.lag_ns) / 1e9 for each in made])
            end = np.array([each.done_ns / 1e9 for each in made])
        last = float(end[_WARMUP : _WARMUP + size].max())
        sent = due < last
        measured = np.zeros(total, dtype=np.bool_)
        measured[_WARMUP : _WARMUP + size] = True
        value = np.where(end <= last, end - due, np.inf)
        return Rung(
            rate_per_s=rate_per_s,
            due=due[sent],
            end=np.minimum(end, last)[sent],
            value=value[sent],
            measured=measured[sent],
        )


def _throughput(overload: Scenario, seed: int) -> float:
    ends = np.sort([each.done_ns for each in requests_of(overload, seed)]) / 1e9
    # While all slots are used.
    middle = ends[len(ends) // 5 : len(ends) * 4 // 5]
    return (len(middle) - 1) / float(middle[-1] - middle[0])


def _queued(due: Values, work: Values, slots: int) -> Values:
    """Return when requests end that wait for one of the slots in the order of their arrival."""
    free = [0.0] * slots
    ends = np.empty(len(due))
    for index, (arrival, length) in enumerate(zip(due.tolist(), work.tolist(), strict=True)):
        begin = max(arrival, heapq.heappop(free))
        ends[index] = begin + length
        heapq.heappush(free, begin + length)
    return ends


def _shared(due: Values, work: Values, servers: int) -> Values:
    """Return when requests end among which that many servers share their time equally."""
    left: dict[int, float] = {}
    ends = np.empty(len(due))
    now, index = 0.0, 0
    while index < len(due) or left:
        speed = min(1.0, servers / len(left)) if left else 1.0
        first = min(left, key=left.__getitem__) if left else -1
        ends_at = now + left[first] / speed if left else np.inf
        arrives_at = float(due[index]) if index < len(due) else np.inf
        until = min(ends_at, arrives_at)
        done = (until - now) * speed
        for each in left:
            left[each] -= done
        now = until
        if ends_at <= arrives_at:
            del left[first]
            ends[first] = now
        else:
            left[index] = float(work[index])
            index += 1
    return ends


def batching(**changes: object) -> Scenario:
    """Return a server that batches: one replica without a fault, unless that is changed."""
    return replace(HEALTHY, **{"replicas": 1, "keep_alive": 1.0, **changes})  # type: ignore[arg-type]


def write_ladder(folder: Path, rungs: Sequence[Rung], **about: Any) -> Recording:
    """
    Write the recording of a ladder, as ``latspan measure --ladder`` writes it.

    Args:
        folder: Folder of the recording.
        rungs: Its rungs.
        about: Further fields of the measurement.
    """
    records: list[RequestRecord] = []
    steps: list[dict[str, Any]] = []
    for number, rung in enumerate(rungs):
        first = int(np.argmax(rung.measured))
        for index, due in enumerate(rung.due):
            phase = "measured" if rung.measured[index] else "drain"
            length_ms = 1e3 * float(rung.end[index] - due)
            completed = bool(np.isfinite(rung.value[index]))
            records.append(
                call(
                    1_000_000 * number + index + 1,
                    at_ms=1e3 * float(due) + 1e8 * number,
                    duration_ms=length_ms,
                    ttft_ms=length_ms / 2,
                    outcome=Outcome.COMPLETED if completed else Outcome.CANCELLED,
                    phase="warmup" if index < first else phase,
                    number=number,
                )
            )
        size = int(rung.measured.sum())
        load = {"pattern": "poisson", "rate_per_s": rung.rate_per_s}
        steps.append(step(intended=size, load=load, offered_per_s=None, reached_per_s=None))
    return load_test(folder, records, steps, **about)
