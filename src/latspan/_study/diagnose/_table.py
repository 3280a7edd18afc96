"""
Units of a recording as columns: one row per request, or per call if there are no requests.

A row has the goal metric, the time of each segment up to it, and facts on which rules depend. Calls
inside a request are not rows of their own: their segments are part of the request, so no time is
counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from latspan._segments import Kind, Source
from latspan._study.diagnose._goal import Goal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.signedinteger[Any]]
    """Small integers: as few bytes as they need."""

__all__ = ["RequestTable"]


@dataclass(slots=True)
class RequestTable:
    """
    Columns of all units. Times are nanoseconds, NaN where a unit has no value.

    Args:
        goal: The goal.
        kind: Kind of the units.
        value_ns: Goal metric, from the scheduled time in a load test; shape ``(n,)``.
        failed: Whether the unit failed, or had no token where the goal is the first one; shape
            ``(n,)``.
        start_ns: Start as Unix time; shape ``(n,)``, in ascending order.
        duration_ns: Duration; shape ``(n,)``.
        names: Names of the segments.
        segments_ns: Time of each segment up to the goal metric; shape ``(n, len(names))``.
        uncertain: Fraction of each segment's time that is an estimate; shape ``(len(names),)``.
        sources: Source of most of the time of each segment.
        kinds: Kind of each stage, by its name.
        numbers: Facts as numbers, by name; shape ``(n,)`` each.
        groups: Attributes with few values: codes of shape ``(n,)``, and their values.
        chains: Number of calls of each request that ran one after another; shape ``(n,)``.
        earlier: Summed time of each earlier call in the tail, by name.
        left_out: Number of units that have no goal metric although they did not fail.
        reported: Fraction of the units for which a server or gateway reported times.
    """

    goal: Goal
    kind: Kind
    value_ns: NDArray[np.float64]
    failed: NDArray[np.bool_]
    start_ns: NDArray[np.int64]
    duration_ns: NDArray[np.float64]
    names: tuple[str, ...]
    segments_ns: NDArray[np.float64]
    uncertain: NDArray[np.float64]
    sources: Mapping[str, Source]
    kinds: Mapping[str, str]
    numbers: Mapping[str, NDArray[np.float64]]
    groups: Mapping[str, tuple[Codes, tuple[str, ...]]]
    chains: Codes
    earlier: Mapping[str, NDArray[np.float64]] = field(default_factory=dict[str, Any])
    left_out: int = 0
    reported: float = 0.0

    def __len__(self) -> int:
        """Return the number of units, failed ones included."""
        return len(self.value_ns)

    def segment(self, *names: str) -> NDArray[np.float64]:
        """Return the summed time of some segments; zeros for those that do not occur."""
        found = [index for index, name in enumerate(self.names) if name in names]
        return self.segments_ns[:, found].sum(axis=1)

    def number(self, name: str) -> NDArray[np.float64]:
        """Return a fact; NaN for all units if it does not occur."""
        if name in self.numbers:
            return self.numbers[name]
        return np.full(len(self), nan)

    def rows(self, mask: NDArray[np.bool_]) -> RequestTable:
        """Return the table of some rows."""
        return replace(
            self,
            value_ns=self.value_ns[mask],
            failed=self.failed[mask],
            start_ns=self.start_ns[mask],
            duration_ns=self.duration_ns[mask],
            segments_ns=self.segments_ns[mask],
            numbers={name: values[mask] for name, values in self.numbers.items()},
            groups={name: (codes[mask], values) for name, (codes, values) in self.groups.items()},
            chains=self.chains[mask],
            earlier={name: values[mask] for name, values in self.earlier.items()},
        )
