"""
Capacity of a system: its p99 against the load, the knee, headroom, and projections.

The **knee** is the load at which load divided by p99 is greatest. Below it, more load costs little
latency; above it, the p99 grows faster than the load.

Source: Kleinrock (1979), Power and deterministic rules of thumb for probabilistic problems in
computer communications. He divides by the mean; a target is about a percentile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan._model.segments import Kind
from latspan._study.capacity._curve import Capacity, Point
from latspan._study.capacity._ladder import Ladder
from latspan._study.capacity._projection import (
    HoldOut,
    Label,
    Projection,
    Projector,
    Refusal,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

COMFORTABLE: Final = 0.8
"""Fraction of the capacity up to which headroom counts."""

_SHOWN: Final = (0.6, 0.7, 0.8, 0.9)
"""Fractions of the capacity that are projected if no load is given."""

_PROJECTED: Final = frozenset({Label.INTERPOLATED, Label.EXTRAPOLATED})
_STEPS: Final = 14
_MIN_LOAD_FRACTION: Final = 0.1
_REPLICATES: Final = 50
_RANGE: Final = (0.025, 0.5, 0.975)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """
    Load above which the percentile grows faster than the load.

    Args:
        per_s: The load; ``None`` if only the interval is known.
        low_per_s: Lower end of its interval.
        high_per_s: Upper end; infinite if it is above the highest rung.
        simulated: Whether it is that of the model, with a 95 % interval, and not only the
            neighbours of the best rung.
    """

    per_s: float | None
    low_per_s: float
    high_per_s: float
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityStudy:
    """
    What a ladder shows, and what follows for other loads.

    Args:
        name: Inference path, or what was measured.
        kind: Kind of the measured unit.
        metric: Goal metric.
        percentile: Goal percentile.
        points: What each rung measured, by ascending load.
        capacity: Throughput at saturation; ``None`` if no rung is saturated.
        knee: The knee; ``None`` if no rung is below saturation.
        projections: Projections, by ascending load.
        asked: Number of projections that were asked for; the others are there to show the curve.
        held_out: Check of the model; ``None`` without a model.
        refusal: Why no load is projected; ``None`` if some are.
        limit_s: Limit of the target in seconds; ``None`` without a target.
        within_limit_per_s: Highest load up to which the upper end of every range is within the
            limit, and below the refused loads; 0 if there is none, ``None`` without a limit.
        current_per_s: Load of today; ``None`` if unknown.
        notes: What else a reader must know, one sentence each.
    """

    name: str
    kind: Kind
    metric: str
    percentile: float
    points: tuple[Point, ...]
    capacity: Capacity | None
    knee: Knee | None
    projections: tuple[Projection, ...]
    asked: int
    held_out: HoldOut | None
    refusal: Refusal | None
    limit_s: float | None
    within_limit_per_s: float | None
    current_per_s: float | None
    notes: tuple[str, ...]

    @property
    def comfortable_per_s(self) -> float | None:
        """80 % of the capacity; ``None`` if it is unknown."""
        return None if self.capacity is None else COMFORTABLE * self.capacity.per_s

    @property
    def headroom(self) -> float | None:
        """
        Highest sensible load divided by the current one; ``None`` if either is unknown.

        It is the lower one of 80 % of the capacity and the highest load within the limit.
        """
        loads = [
            load for load in (self.comfortable_per_s, self.within_limit_per_s) if load is not None
        ]
        if not loads or not self.current_per_s:
            return None
        headroom = min(loads) / self.current_per_s
        # A load close to zero gives an infinity, which JSON does not have.
        return headroom if math.isfinite(headroom) else None


def study_capacity(
    ladder: Ladder,
    rates_per_s: Sequence[float] = (),
    *,
    limit_s: float | None = None,
    current_per_s: float | None = None,
) -> CapacityStudy:
    """
    Return what a ladder shows about the capacity of a system.

    Args:
        ladder: The ladder.
        rates_per_s: Loads to project the percentile to; if there are none, some below the capacity.
        limit_s: Limit of the target, in seconds.
        current_per_s: Load of today.
    """
    projector = Projector(ladder)
    projections = [projector.project(rate) for rate in sorted(rates_per_s) or _usual(projector)]
    if not rates_per_s:
        # They show the curve, and answer no question, so there is nothing to refuse.
        projections = [each for each in projections if each.label in _PROJECTED]
    curve = None if projector.model is None else _Curve(projector)
    return CapacityStudy(
        name=ladder.name,
        kind=ladder.kind,
        metric=ladder.metric,
        percentile=ladder.percentile,
        points=projector.points,
        capacity=projector.capacity,
        knee=_measured_knee(projector.points) if curve is None else curve.knee(),
        projections=tuple(projections),
        asked=len(rates_per_s),
        held_out=projector.held_out,
        refusal=projector.refusal,
        limit_s=limit_s,
        within_limit_per_s=_within(projector, curve, projections, limit_s),
        current_per_s=current_per_s,
        notes=(*ladder.left_out, *ladder.notes),
    )


def _usual(projector: Projector) -> list[float]:
    """Return loads that show the curve, apart from those of the rungs."""
    if projector.capacity is None:
        return []
    return [part * projector.capacity.per_s for part in _SHOWN]


class _Curve:
    """
    Percentile of each replicate of the model against the load.

    Args:
        projector: Projector with a model.
    """

    def __init__(self, projector: Projector) -> None:
        assert projector.model is not None  # noqa: S101 - checked by the caller
        self._projector = projector
        most = projector.most_per_s
        self.rates: NDArray[np.float64] = np.linspace(_MIN_LOAD_FRACTION * most, most, _STEPS)
        self._values = projector.model.replicates(self.rates.tolist(), _REPLICATES)

    def knee(self) -> Knee:
        """Return the knee: the middle and the interval of the replicates' knees."""
        power = self.rates[None, :] / self._values
        low, middle, high = np.quantile(self.rates[np.argmax(power, axis=1)], _RANGE)
        highest = high >= self.rates[-1]
        return Knee(
            per_s=None if middle >= self.rates[-1] else float(middle),
            low_per_s=float(low),
            high_per_s=float("inf") if highest else float(high),
            simulated=True,
        )

    def within(self, limit_s: float) -> float:
        """Return the highest load up to which the upper end of the range is within a limit."""
        upper = np.quantile(self._values, _RANGE[-1], axis=0)
        # A few replicates are noisy; the percentile never falls as the load grows.
        upper = np.maximum.accumulate(
            [self._projector.widened(value, value)[1] for value in upper.tolist()]
        )
        if upper[0] > limit_s:
            return 0.0
        if upper[-1] <= limit_s:
            return float(self.rates[-1])
        return float(np.interp(limit_s, upper, self.rates))


def _within(
    projector: Projector,
    curve: _Curve | None,
    projections: Sequence[Projection],
    limit_s: float | None,
) -> float | None:
    """
    Return the highest load up to which no upper end exceeds a limit.

    The rungs and the projections that are shown bound the load, so the result never contradicts
    them. Between them the model finds it.
    """
    if limit_s is None:
        return None
    shown = [
        (point.rate_per_s, np.inf if point.saturated else point.high_s)
        for point in projector.points
    ]
    shown += [
        (each.rate_per_s, each.high_s) for each in projections if each.label is not Label.REFUSED
    ]
    first_above = min((rate for rate, high_s in shown if high_s > limit_s), default=np.inf)
    highest = max((rate for rate, _ in shown if rate < first_above), default=0.0)
    if curve is not None:
        modelled = curve.within(limit_s)
        if max(highest, projector.least_per_s) < modelled < first_above:
            highest = modelled
    if projector.capacity is not None:
        highest = min(highest, projector.refused_from_per_s)
    return highest


def _measured_knee(points: Sequence[Point]) -> Knee | None:
    """Return the knee as far as the rungs alone show it: between the neighbours of the best one."""
    known = list(_finite(points))
    if not known:
        return None
    power = [point.rate_per_s / point.value_s for point in known]
    best = int(np.argmax(power))
    rates = [point.rate_per_s for point in points]
    at = rates.index(known[best].rate_per_s)
    return Knee(
        per_s=None,
        low_per_s=rates[max(0, at - 1)],
        high_per_s=rates[at + 1] if at + 1 < len(rates) else float("inf"),
        simulated=False,
    )


def _finite(points: Sequence[Point]) -> Iterator[Point]:
    return (point for point in points if not point.saturated and 0 < point.value_s < float("inf"))
