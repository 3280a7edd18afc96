"""
Projection of a percentile to a load, as a range, or the reason why there is none.

A projection is only as good as the model, and the model is checked where that is possible: it is
fitted without the highest rung below saturation, and what it projects for that rung is compared
with what was measured there. The error of this *hold-out* widens every range, and a large error
refuses all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from latspan._model.metrics import DURATION
from latspan._model.text import percent
from latspan._study.capacity._curve import (
    MAX_FAILED,
    Point,
    capacity_of,
    is_saturated,
    percentile_of,
    point_of,
)
from latspan._study.capacity._ladder import Ladder, Rung, distinct_loads
from latspan._study.capacity._model import Model

MAX_UTILISATION: Final = 0.95
"""Fraction of the capacity from which no projection is made."""

_MAX_STEP: Final = 2.0
"""Largest ratio of a projected load to the nearest rung below saturation."""

_MIN_STABLE: Final = 3

_MAX_ERROR: Final = 2.0
"""Ratio of the measured to the projected percentile of the hold-out that refuses projections."""

_MODEL_ERROR: Final = 1.08
"""Factor that widens each end of a range, for errors that a hold-out does not show."""

_REPLICATES: Final = 200
_MAX_REQUESTS: Final = 5_000
"""Maximum number of requests of a replicate; a longer test takes minutes to simulate."""
_RANGE: Final = (0.025, 0.975)
_LOW_QUANTILE: Final = 0.005
"""Quantile of the capacities of the model that counts as the lower end of its interval."""
_OTHER_RUN: Final = 0.98
"""Fraction of the measured capacity that another run may have, however narrow the interval is."""
_SAME_LOAD: Final = 0.01
"""Relative difference up to which two loads count as the same."""


class Label(StrEnum):
    """How a percentile at a load is known."""

    MEASURED = "measured"
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    Why there is no projection.

    Args:
        reason: What is missing or too large.
        hint: What makes a projection possible.
    """

    reason: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """
    A percentile at a load.

    Args:
        rate_per_s: The load.
        label: How it is known.
        low_s: Lower end of the range; NaN if refused.
        high_s: Upper end; NaN if refused.
        utilization: Load divided by capacity; ``None`` if the capacity is unknown.
        refusal: Why it is refused; ``None`` if it is not.
    """

    rate_per_s: float
    label: Label
    low_s: float
    high_s: float
    utilization: float | None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOut:
    """
    What the model projects for a rung that it was not fitted to.

    Args:
        rate_per_s: Load of the rung.
        measured_s: Percentile that the rung measured.
        projected_s: Median of the replicates.
        low_s: Lower end of their range.
        high_s: Upper end.
    """

    rate_per_s: float
    measured_s: float
    projected_s: float
    low_s: float
    high_s: float

    @property
    def ratio(self) -> float:
        """Measured divided by projected."""
        return self.measured_s / self.projected_s

    @property
    def holds(self) -> bool:
        """Whether the range has the measured percentile."""
        return self.low_s <= self.measured_s <= self.high_s


class Projector:
    """
    Projections of a ladder.

    Args:
        ladder: The ladder.
    """

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self.points: Final = tuple(point_of(rung, ladder.percentile) for rung in ladder.rungs)
        """What each rung measured."""
        self.capacity: Final = capacity_of(ladder.rungs)
        """Measured throughput at saturation; ``None`` without a saturated rung."""
        self.held_out: HoldOut | None = None
        """Check of the model; ``None`` if there is no model."""
        self.model: Model | None = None
        """The model; ``None`` if it cannot be fitted."""
        self._lowest_capacity = 0.0
        self.refusal: Final = self._fit()
        """Why no load is projected; ``None`` if some are."""

    def project(self, rate_per_s: float) -> Projection:
        """Return the percentile at a load."""
        utilization = None if self.capacity is None else rate_per_s / self.capacity.per_s
        refusal = self._refusal_of(rate_per_s)
        if refusal is not None:
            return Projection(
                rate_per_s=rate_per_s,
                label=Label.REFUSED,
                low_s=np.nan,
                high_s=np.nan,
                utilization=utilization,
                refusal=refusal,
            )
        label, low, high = self._range(rate_per_s)
        return Projection(
            rate_per_s=rate_per_s, label=label, low_s=low, high_s=high, utilization=utilization
        )

    @property
    def refused_from_per_s(self) -> float:
        """Load from which none is projected: 95 % of the least capacity that is plausible."""
        if self.capacity is None:
            return 0.0
        lowest = min(self.capacity.low_per_s, _OTHER_RUN * self.capacity.per_s)
        return MAX_UTILISATION * min(lowest, self._lowest_capacity or lowest)

    @property
    def most_per_s(self) -> float:
        """Highest load that is projected; 0 if none is."""
        if self.refusal is not None:
            return 0.0
        highest = max(point.rate_per_s for point in self._stable())
        return min(_MAX_STEP * highest, self.refused_from_per_s)

    @property
    def least_per_s(self) -> float:
        """Lowest load that is projected; 0 if none is."""
        return 0.0 if self.refusal is not None else self._stable()[0].rate_per_s / _MAX_STEP

    def widened(self, low_s: float, high_s: float) -> tuple[float, float]:
        """Return a range of replicates, widened by the error of the hold-out."""
        ratio = 1.0 if self.held_out is None else self.held_out.ratio
        return low_s * min(1.0, ratio) / _MODEL_ERROR, high_s * max(1.0, ratio) * _MODEL_ERROR

    def _range(self, rate_per_s: float) -> tuple[Label, float, float]:
        stable = self._stable()
        for point in stable:
            if abs(rate_per_s / point.rate_per_s - 1) <= _SAME_LOAD:
                return Label.MEASURED, point.low_s, point.high_s
        assert self.model is not None  # noqa: S101 - otherwise it is refused
        low, _, high = _ends(self.model, rate_per_s)
        low, high = self.widened(low, high)
        below = [each for each in stable if each.rate_per_s < rate_per_s]
        is_between = below and len(below) < len(stable)
        if below:
            # The percentile grows with the load.
            low = max(low, below[-1].low_s)
            high = max(low, high)
        return Label.INTERPOLATED if is_between else Label.EXTRAPOLATED, low, high

    def _stable(self) -> list[Point]:
        """Return the rungs below saturation, by ascending load."""
        most = np.inf
        if self.capacity is not None:
            most = MAX_UTILISATION * self.capacity.per_s
        return [each for each in self.points if not each.saturated and each.rate_per_s < most]

    def _fit(self) -> Refusal | None:
        """Fit the model, check it, and return why it cannot be used."""
        refusal = self._unusable()
        if refusal is not None:
            return refusal
        rates = {each.rate_per_s for each in self._stable()}
        stable = [rung for rung in self._ladder.rungs if rung.rate_per_s in rates]
        saturated = [rung for rung in self._ladder.rungs if is_saturated(rung)]
        saturated = [min(saturated, key=lambda rung: rung.rate_per_s)]
        held_out = stable[-1]
        # The model must not be fitted to a rung of nearly the load with which it is checked.
        below = [
            rung
            for rung in stable
            if len(distinct_loads((rung.rate_per_s, held_out.rate_per_s))) > 1
        ]
        low, middle, high = _ends(self._model_of([*below, *saturated]), held_out.rate_per_s)
        self.held_out = HoldOut(
            rate_per_s=held_out.rate_per_s,
            measured_s=percentile_of(held_out.values, self._ladder.percentile),
            projected_s=middle,
            low_s=low / _MODEL_ERROR,
            high_s=high * _MODEL_ERROR,
        )
        if not 1 / _MAX_ERROR <= self.held_out.ratio <= _MAX_ERROR:
            return Refusal(
                "the model does not describe this system: its projection for the held-out rung is"
                f" wrong by a factor of {max(self.held_out.ratio, 1 / self.held_out.ratio):.1f}",
                f"measure at the load of interest: latspan measure {self._ladder.name} --rate N",
            )
        self.model = self._model_of([*stable, *saturated])
        self._lowest_capacity = self.model.capacity(_LOW_QUANTILE)
        return None

    def _unusable(self) -> Refusal | None:
        """Return why no model can be fitted."""
        name = self._ladder.name
        failing = self._failing()
        if failing is not None:
            return failing
        if self.capacity is None:
            twice = 2 * max(each.rate_per_s for each in self.points)
            overloaded = [each for each in self.points if each.saturated]
            if overloaded:
                return Refusal(
                    "the capacity is unknown, because too few requests end before the last one"
                    f" arrives at {overloaded[0].rate_per_s:.4g}/s",
                    "send more requests to the rung that overloads the system: latspan measure"
                    f" {name} --rate {overloaded[0].rate_per_s:.4g} --requests"
                    f" {5 * overloaded[0].requests}",
                )
            return Refusal(
                "the capacity is unknown, because no rung is saturated",
                f"add a rung that overloads the system: latspan measure {name} --rate {twice:.4g}",
            )
        stable = distinct_loads(each.rate_per_s for each in self._stable())
        if len(stable) < _MIN_STABLE:
            capacity = self.capacity.per_s
            rates = ",".join(f"{capacity * part:.3g}" for part in (0.15, 0.3, 0.45, 0.6))
            return Refusal(
                f"{len(stable)} of the loads are below saturation, and a projection needs"
                f" {_MIN_STABLE}: two to fit a model, and one to check it",
                f"latspan measure {name} --rate {rates}",
            )
        if stable[-1] > (1 + _SAME_LOAD) * _MAX_STEP * stable[-2]:
            return Refusal(
                f"the highest rungs below saturation, {stable[-2]:.4g}/s and {stable[-1]:.4g}/s,"
                " are too far apart to check a model",
                "add a rung between them",
            )
        return None

    def _failing(self) -> Refusal | None:
        """Return that requests fail or are given up, which the model does not have."""
        for each in self.points:
            incomplete = each.failed + each.given_up
            if incomplete <= MAX_FAILED * each.requests:
                continue
            reason = (
                f"{incomplete:,} of {each.requests:,} requests failed or were given up at"
                f" {each.rate_per_s:.4g}/s"
            )
            if each.saturated or each.given_up >= each.failed:
                hint = "raise --timeout, or saturate the system less"
                return Refusal(f"{reason}, and the model has no failures", hint)
            return Refusal(
                f"{reason}: the system rejects load there instead of letting it wait, and the model"
                " has no failures",
                "measure the rates of interest below it, and see why requests fail: latspan report",
            )
        return None

    def _model_of(self, rungs: Sequence[Rung]) -> Model:
        sizes = [each.requests for each in self.points]
        assert self.capacity is not None  # noqa: S101 - otherwise it is unusable
        return Model(
            rungs,
            self.capacity,
            percentile=self._ladder.percentile,
            requests=min(_MAX_REQUESTS, int(np.median(sizes))),
            whole=self._ladder.metric == DURATION,
        )

    def _refusal_of(self, rate_per_s: float) -> Refusal | None:
        """Return why a load is not projected."""
        capacity, stable = self.capacity, self._stable()
        if capacity is not None and rate_per_s >= self.refused_from_per_s:
            return Refusal(
                f"from {self.refused_from_per_s:.4g}/s on, {percent(MAX_UTILISATION)} of the least"
                " capacity that is plausible, waits grow as long as the load lasts",
                "add capacity, or lower the load",
            )
        if any(abs(rate_per_s / each.rate_per_s - 1) <= _SAME_LOAD for each in stable):
            return None
        if self.refusal is not None:
            return self.refusal
        highest, lowest = stable[-1].rate_per_s, stable[0].rate_per_s
        if not lowest / _MAX_STEP <= rate_per_s <= _MAX_STEP * highest:
            return Refusal(
                f"{rate_per_s:.4g}/s is more than a factor of {_MAX_STEP:g} from the rungs below"
                f" saturation, {lowest:.4g}/s to {highest:.4g}/s",
                f"latspan measure {self._ladder.name} --rate {rate_per_s / 1.5:.4g}",
            )
        return None


def _ends(model: Model, rate_per_s: float) -> tuple[float, float, float]:
    """Return both ends of the range of the replicates, and their median between them."""
    replicates = model.replicates([rate_per_s], _REPLICATES)[:, 0]
    low, high = np.quantile(replicates, _RANGE)
    return float(low), float(np.median(replicates)), float(high)
