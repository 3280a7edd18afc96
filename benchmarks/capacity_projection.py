"""
Projections of ``latspan capacity``: how often their range holds what a test at that load measures.

Method: each simulated system is measured with a ladder: four rungs at about 12, 25, 40 and 55 % of
its capacity, and one above it. The ladder goes through the same code as the command. Then the
system is measured at three loads between 60 and 95 % of its capacity, which the projections have
never seen, with arrivals and requests of their own. The capacity of a system that batches is that
of long overloads. Each measurement has 1,000 requests (300 with ``--quick``), and the percentile
is p99 of the duration.

- *Missed*: a projected range that does not hold the measured p99, of those that are not refused.
- *Refused*: loads without a projection, because they are too near to the capacity as far as it is
  known, or because the model failed at the held-out rung.
- *Not refused from 95 % on*: loads from 95 to 110 % of the true capacity with a projection.

The alternative is Allen and Cunneen's formula for the p99 of a queue with several servers, with the
mean and the variation of the service times measured at the lowest rung, and the number of servers
that gives the measured capacity. It knows nothing of batching, and has no range: its figure is how
often it differs from the measured p99 by more than a factor of 1.5, half the width of a range.

The parameters of the method were set on the systems of ``TRAINING`` with other seeds, which
``LATSPAN_TRAINING=1`` runs.

Caveats: the systems are simulated, and kinder than real ones: none autoscales, limits rates or
shares a machine. All figures are rates over systems; they do not depend on the machine.

Reproduce: ``make bench ARGS=capacity_projection``
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from _bench import Figure, Row, Scale, Target
from latspan import Kind
from latspan._study.capacity import Label, Ladder, Projection, Projector, Rung, percentile_of
from support.queues import System, batching, bursts, constant, lognormal
from support.simulation import Length

_RUNGS: Final = (0.12, 0.25, 0.4, 0.55)
_LOADS: Final = (0.6, 0.95)
_NEAR: Final = (0.95, 0.97, 1.0, 1.1)
_PER_SYSTEM: Final = 3
_PERCENTILE: Final = 99.0

_LONG: Final = Length(600, 0.3, heavy=0.1, factor=8)
_WIDE: Final = Length(60, 0.8)

HELD_OUT: Final = (
    System("M/M/1", 1),
    System("M/M/4", 4),
    System("M/M/16", 16),
    System("M/D/1", 1, constant),
    System("M/D/8", 8, constant),
    System("M/G/4, lognormal 1.0", 4, lognormal(1.0)),
    System("M/G/1, lognormal 0.5", 1, lognormal(0.5)),
    System("G/M/4, bursts 0.5", 4, gaps=bursts(0.5)),
    System("G/G/8, bursts 0.3", 8, lognormal(0.5), bursts(0.3)),
    System("D/G/4, constant gaps", 4, lognormal(0.8), constant),
    System("M/G/1 sharing", 1, lognormal(0.8), shared=True),
    System("M/M/4 sharing", 4, shared=True),
    System("batching, 16 slots", scenario=batching()),
    System("batching, 4 slots", scenario=batching(slots=4)),
    System("batching, 32 slots", scenario=batching(slots=32)),
    System("batching, wide outputs", scenario=batching(slots=24, output=_WIDE)),
    System("batching, long prompts", scenario=batching(prompt=_LONG)),
    System("batching, whole prefills", scenario=batching(chunk_tokens=0, prompt=_LONG)),
    System("batching, KV limit", scenario=batching(slots=64, kv_tokens=6_000, output=Length(90))),
    System("batching, bursts of 3", scenario=batching(burst=3)),
    System("batching, stalls", scenario=batching(stall_every_s=20, stall_ms=Length(500))),
    System("batching, slow steps", scenario=batching(step_sequence_ms=3.0)),
    System("2 replicas, random", scenario=batching(replicas=2, slots=8)),
    System("3 replicas, random", scenario=batching(replicas=3, slots=4)),
    System("gateway of 6", scenario=batching(gateway=6)),
    System("reasoning", scenario=batching(reasoning=Length(80, 0.6))),
)
"""Systems of the published figures; no parameter of the method was set on them."""

TRAINING: Final = (
    System("M/M/1", 1),
    System("M/M/3", 3),
    System("M/M/24", 24),
    System("M/D/2", 2, constant),
    System("M/G/6, lognormal 0.9", 6, lognormal(0.9)),
    System("G/M/2, bursts 0.4", 2, gaps=bursts(0.4)),
    System("G/G/12, bursts 0.6", 12, lognormal(0.7), bursts(0.6)),
    System("M/G/1 sharing", 1, lognormal(0.5), shared=True),
    System("M/M/6 sharing", 6, shared=True),
    System("batching, 12 slots", scenario=batching(slots=12)),
    System("batching, 6 slots", scenario=batching(slots=6)),
    System("batching, 48 slots", scenario=batching(slots=48)),
    System("batching, wide outputs", scenario=batching(slots=12, output=Length(40, 0.9))),
    System(
        "batching, long prompts",
        scenario=batching(prompt=Length(500, 0.4, heavy=0.15, factor=5)),
    ),
    System("batching, whole prefills", scenario=batching(chunk_tokens=0, prompt=Length(900, 0.5))),
    System("batching, KV limit", scenario=batching(slots=48, kv_tokens=8_000, output=Length(70))),
    System("batching, bursts of 5", scenario=batching(slots=24, burst=5)),
    System("batching, stalls", scenario=batching(slots=8, stall_every_s=30, stall_ms=Length(800))),
    System("batching, slow steps", scenario=batching(slots=10, step_sequence_ms=1.5)),
    System("2 replicas, random", scenario=batching(replicas=2, slots=6)),
    System("4 replicas, random", scenario=batching(replicas=4, slots=8)),
    System("gateway of 4", scenario=batching(gateway=4)),
    System("reasoning", scenario=batching(slots=8, reasoning=Length(60, 0.5))),
)
"""Systems on which the parameters of the method were set, with other seeds."""


@dataclass(slots=True)
class _Tally:
    """Counts over all systems."""

    loads: int = 0
    answered: int = 0
    missed: int = 0
    near: int = 0
    not_refused: int = 0
    formula_missed: int = 0


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    training = os.environ.get("LATSPAN_TRAINING") == "1"
    systems, seed = (TRAINING, 2) if training else (HELD_OUT, 43)
    size = 300 if scale.quick else 1_000
    tally, widths = _Tally(), list[float]()
    for number, system in enumerate(systems):
        _project(system, 1_000_000 * seed + 10_000 * number, size, tally, widths)
    yield Row(
        what=f"projected ranges that miss the measured p99, {len(systems)} systems",
        latspan=Figure(100 * tally.missed / tally.answered),
        rival=Figure(100 * tally.formula_missed / tally.answered),
        rival_name="Allen-Cunneen, off by more than 1.5 times",
        target=Target(most=20.0),
        unit="%",
    )
    yield Row(
        what="upper end of a range, relative to its lower end (median)",
        latspan=Figure(100 * float(np.median(widths))),
        target=Target(most=300.0),
        unit="%",
    )
    yield Row(
        what="loads from 60 to 95 % of capacity that are refused",
        latspan=Figure(100 * (1 - tally.answered / tally.loads)),
        unit="%",
    )
    yield Row(
        what="loads from 95 to 110 % of capacity that are not refused",
        latspan=Figure(100 * tally.not_refused / tally.near),
        target=Target(most=0.0),
        unit="%",
    )


def _project(system: System, seed: int, size: int, tally: _Tally, widths: list[float]) -> None:
    """Measure a ladder of a system, project from it, and measure what was projected."""
    random = np.random.default_rng(seed)
    capacity = system.capacity(seed)
    parts = [*(np.array(_RUNGS) * random.uniform(0.9, 1.1, len(_RUNGS))), random.uniform(1.2, 2.0)]
    rungs = [
        system.rung(capacity * part, seed + 1 + number, size) for number, part in enumerate(parts)
    ]
    projector = Projector(
        Ladder(
            name=system.name,
            kind=Kind.CALL,
            metric="duration",
            percentile=_PERCENTILE,
            rungs=tuple(rungs),
        )
    )
    for number, part in enumerate(random.uniform(*_LOADS, _PER_SYSTEM)):
        rate = capacity * float(part)
        found = projector.project(rate)
        tally.loads += 1
        if found.label is Label.REFUSED:
            continue
        tally.answered += 1
        later = system.rung(rate, seed + 100 + number, size)
        measured = percentile_of(later.values, _PERCENTILE)
        tally.missed += not _holds(found, measured)
        widths.append(found.high_s / found.low_s)
        formula = _allen_cunneen(rungs[0], rate, projector)
        tally.formula_missed += not measured / 1.5 <= formula <= measured * 1.5
    for part in _NEAR:
        tally.near += 1
        tally.not_refused += projector.project(capacity * part).label is not Label.REFUSED


def _holds(found: Projection, measured: float) -> bool:
    return found.low_s <= measured <= found.high_s


def _allen_cunneen(lowest: Rung, rate_per_s: float, projector: Projector) -> float:
    """
    Return the p99 of the duration in a queue with several servers, in seconds.

    A request waits with the probability of Erlang's C, and those waits are taken for exponential,
    with the mean of Allen and Cunneen. The result is the larger of two sums: the p99 of the service
    with the mean wait, and the p99 of the wait with the mean service.

    Source: Allen (1990), Probability, Statistics and Queueing Theory, for the mean.
    """
    assert projector.capacity is not None  # noqa: S101 - every ladder has a saturated rung
    service = lowest.values
    mean = float(service.mean())
    servers = max(1, round(projector.capacity.per_s * mean))
    load = rate_per_s * mean
    busy = load / servers
    if busy >= 1:
        return math.inf
    waits = _erlang_c(servers, load)
    gaps = lowest.gaps
    variation = (float(gaps.var()) + float(service.var()) / mean**2) / 2
    wait_if_any = variation * mean / (servers * (1 - busy))
    wait = max(0.0, wait_if_any * math.log(waits / 0.01)) if waits > 0.01 else 0.0
    tail = percentile_of(service, _PERCENTILE)
    return max(tail + waits * wait_if_any, wait + mean)


def _erlang_c(servers: int, load: float) -> float:
    """Return the probability that a request has to wait."""
    blocking = 1.0
    for number in range(1, servers + 1):
        blocking = load * blocking / (number + load * blocking)
    return blocking / (1 - load / servers * (1 - blocking))
