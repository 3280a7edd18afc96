"""Budgets: the limit of each component beside its mean time in the tail band."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from latspan._model.goals import BUDGET_COMPONENTS, Budget
from latspan._model.segments import SegmentName
from latspan._study.diagnose._facts import Facts


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """
    One component of a budget.

    Args:
        component: Name of the component.
        label: Its name in words.
        actual_ns: Mean time per unit of the tail band, in nanoseconds.
        limit_ns: Its limit; ``None`` if it has none.
    """

    component: str
    label: str
    actual_ns: float
    limit_ns: int | None

    @property
    def overrun_ns(self) -> float:
        """Time beyond the limit, in nanoseconds; negative if it is kept, 0 without a limit."""
        return 0.0 if self.limit_ns is None else self.actual_ns - self.limit_ns


def budget_rows(budget: Budget, facts: Facts) -> tuple[BudgetRow, ...]:
    """
    Return all components, the largest overrun first, and segments that belong to none of them.

    The time of the application before the first step of a request counts as preparation, that after
    the last step as post-processing, and the time between steps is a row of its own.

    Args:
        budget: Limits.
        facts: The units, and the shares of the segments, whose means add up. A stage counts as its
            kind.
    """
    component_of = {
        segment: name for name, each in BUDGET_COMPONENTS.items() for segment in each.segments
    }
    actual = dict.fromkeys(BUDGET_COMPONENTS, 0.0)
    others: dict[str, float] = {}
    kinds = facts.table.kinds
    for share in facts.attribution.shares:
        component = component_of.get(kinds.get(share.name, share.name))
        if component is None:
            others[share.name] = others.get(share.name, 0.0) + share.mean_ns
        else:
            actual[component] += share.mean_ns
    own = SegmentName.APPLICATION.value
    for name, each in BUDGET_COMPONENTS.items():
        if each.application is None or own not in others:
            continue
        part_ns = facts.means(facts.table.application_ns(each.application))[0]
        if not isnan(part_ns):
            moved_ns = min(part_ns, others[own])
            actual[name] += moved_ns
            others[own] -= moved_ns
    rows = [
        BudgetRow(name, each.label, actual[name], getattr(budget, f"{name}_ns"))
        for name, each in BUDGET_COMPONENTS.items()
    ]
    rows += [BudgetRow(name, name, mean_ns, None) for name, mean_ns in others.items()]
    return tuple(sorted(rows, key=lambda row: (row.limit_ns is None, -row.overrun_ns)))
