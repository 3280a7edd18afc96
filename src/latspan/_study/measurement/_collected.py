"""Requests of one step of a load test: what was sent, how it ended, and what the cache held."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._model.segments import Outcome
from latspan._study.measurement._latency import Latency, Origin
from latspan._study.measurement._validity import CachedInput
from latspan._study.table import MEASURED, OUTCOMES, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

_THIRDS: Final = 3


@dataclass(frozen=True, slots=True)
class StepRequests:
    """
    Requests of one step.

    Args:
        measured: Requests of the measured phase.
        under_load: Requests of every phase.
    """

    measured: Table
    under_load: Table

    @classmethod
    def of(cls, table: Table, step: int) -> StepRequests:
        """Return the requests of a step, from 0, among those of a load test."""
        if (table.streamed == 1).any() or not table.completed.any():
            # The requests of a load test are alike; older ones do not state that they stream, and
            # failed ones may not show it.
            table = replace(table, streamed=np.where(table.streamed < 0, 1, table.streamed))
        return cls(
            table.rows(table.measured(step)), table.rows((table.phase > 0) & (table.step == step))
        )

    def outcomes(self) -> Counter[Outcome]:
        """Return the number of measured requests by outcome."""
        numbers = np.bincount(self.measured.outcome, self.measured.weight, len(OUTCOMES))
        return Counter(
            {
                outcome: round(number)
                for outcome, number in zip(OUTCOMES, numbers.tolist(), strict=True)
                if number
            }
        )

    def errors(self) -> Counter[str]:
        """Return the number of measured requests that did not complete by ``error.type``."""
        table = self.measured.rows(~self.measured.completed)
        codes, names = table.groups.get(semconv.ERROR_TYPE, (np.full(len(table), -1), ()))
        found = Counter[str]()
        pairs: list[tuple[int, int]] = list(zip(table.outcome, codes, strict=True))
        for outcome, code in pairs:
            found[names[code] if code >= 0 else str(OUTCOMES[outcome])] += 1
        return found

    def latency(self, metric: str, origin: Origin) -> Latency:
        """Return what is known of a metric."""
        table = self.measured
        known = table.bounds(metric, from_schedule=origin is Origin.SCHEDULE)
        applies = known.applies
        return Latency(
            metric,
            origin,
            known.low[applies],
            known.high[applies],
            table.weight[applies],
            table.completed[applies],
        )

    @property
    def elapsed_s(self) -> float:
        """Time from the first measured start to the last measured end, in seconds."""
        table = self.measured
        if not len(table):
            return 0.0
        return int((table.start_ns + table.duration_ns).max() - table.start_ns.min()) / NS_PER_S

    @property
    def output_tokens(self) -> float:
        """Sum of the output tokens of completed requests."""
        tokens = self.measured.number("output_tokens")[self.measured.completed]
        return float(np.nansum(tokens))

    def in_flight(self) -> tuple[float, float] | None:
        """
        Return the mean number in flight while measured requests began, and that of Little's law.

        Little's law: number in flight = rate of arrivals x mean time in the system.
        """
        start_ns, size = self.measured.start_ns, len(self.measured)
        if size < _THIRDS:
            return None
        begin, end = int(start_ns.min()), int(start_ns.max())
        if end <= begin:
            return None
        every = self.under_load
        over = np.minimum(every.start_ns + every.duration_ns, end)
        inside = np.clip(over - np.maximum(every.start_ns, begin), 0, None).sum()
        mean_ns = float(self.measured.duration_ns.mean())
        return float(inside) / (end - begin), (size - 1) / (end - begin) * mean_ns

    def cached_input(self) -> CachedInput | None:
        """Compare the input that was cached in the first and the last third of the requests."""
        table = self.measured.rows(self.measured.completed)
        tokens, cached = _cached_input(table)
        third = len(tokens) // _THIRDS
        if not third:
            return None
        early, early_error = _ratio(tokens[:third], cached[:third])
        late, late_error = _ratio(tokens[-third:], cached[-third:])
        return CachedInput(early, late, math.hypot(early_error, late_error))


def observed_conditions(table: Table) -> dict[str, Any]:
    """Return the conditions of a load test that only the measured, completed requests show."""
    measured = table.rows((table.phase == MEASURED) & table.completed)
    observed: dict[str, Any] = {}
    models = answered_models(measured)
    if models:
        observed["models_returned"] = models
    tokens, cached = _cached_input(measured)
    if tokens.sum():
        observed["cached_input"] = round(float(cached.sum() / tokens.sum()), 4)
    reused = measured.number("reused")
    if np.isfinite(reused).any():
        observed["connections_reused"] = round(float(np.nanmean(reused)), 4)
    return observed


def answered_models(table: Table) -> list[str]:
    """Return the models that answered, sorted."""
    codes, names = table.groups.get(semconv.GEN_AI_RESPONSE_MODEL, (np.empty(0, np.int32), ()))
    present: list[int] = np.unique(codes).tolist()
    return sorted(names[code] for code in present if code >= 0)


def _cached_input(table: Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the input tokens and the cached ones of the requests that report both."""
    tokens, cached = table.number("input_tokens"), table.number("cached_tokens")
    known = (np.nan_to_num(tokens) > 0) & np.isfinite(cached)
    return tokens[known], cached[known]


def _ratio(tokens: NDArray[np.float64], cached: NDArray[np.float64]) -> tuple[float, float]:
    """
    Return the cached fraction of the input of some requests, and its standard error.

    If the same beginning of prompts of different lengths is cached, the fraction differs from
    request to request, which is not a change of the cache.

    Source: ratio estimator; Cochran, Sampling Techniques, section 2.11.
    """
    total = float(tokens.sum())
    ratio = float(cached.sum()) / total
    if len(tokens) < 2:
        return ratio, math.inf
    residuals = cached - ratio * tokens
    return ratio, math.sqrt(len(tokens)) * float(residuals.std(ddof=1)) / total
