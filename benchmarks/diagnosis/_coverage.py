"""How often the 90 % interval around a share contains the share of a very long measurement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from latspan._study.diagnose import attribute, parse_goal, table_of
from support.simulation import FAULTS, Scenario, records_of, requests_of, scenario_of

SCENARIOS: Final = (
    ("", "p95 duration"),
    ("", "p95 ttft"),
    ("retrieval", "p95 duration"),
    ("network_jitter", "p95 ttft"),
    ("output_length", "p95 duration"),
    ("retries", "p95 duration"),
    ("long_context", "p95 ttft"),
    ("call_chain", "p95 duration"),
    ("random_stalls", "p95 duration"),
    ("gateway_queue", "p90 duration"),
)
_STRENGTH: Final = 0.9
_WARM_UP: Final = 200
"""Requests at the begin that are not measured: a queue that starts empty is another system."""
_LONG: Final = 20_000
_MIN_SHARE: Final = 0.02
"""Share below which a segment is no candidate for the largest one, and is not counted."""


@dataclass(frozen=True, slots=True)
class Covered:
    """
    Intervals of one scenario.

    Args:
        name: Its fault.
        goal: Its goal.
        intervals: Number of intervals.
        hits: Number of them that contain the truth.
    """

    name: str
    goal: str
    intervals: int
    hits: int


def covered(repeats: int) -> Iterator[Covered]:
    """Yield the coverage of each scenario."""
    for number, (name, text) in enumerate(SCENARIOS):
        scenario = scenario_of((name, _STRENGTH)) if name else scenario_of()
        if name == "gateway_queue":
            scenario = replace(scenario, rate_per_s=4.2)
        truth = _shares(replace(scenario, requests=_LONG), 9_000_000 + number, text)
        hits = intervals = 0
        for repeat in range(repeats):
            found = _shares(scenario, 8_000_000 + 1_000 * number + repeat, text)
            for segment, (share, _, _) in truth.items():
                if share < _MIN_SHARE:
                    continue
                _, low, high = found.get(segment, (0.0, 0.0, 0.0))
                intervals += 1
                hits += low <= share <= high
        yield Covered(FAULTS[name].name if name else "healthy", text, intervals, hits)


def _shares(scenario: Scenario, seed: int, goal: str) -> dict[str, tuple[float, float, float]]:
    scenario = replace(scenario, requests=scenario.requests + _WARM_UP)
    measured = requests_of(scenario, seed)[_WARM_UP:]
    table = table_of(records_of(measured, scenario), parse_goal(goal))
    found = attribute(table)
    if found is None:
        raise ValueError("too few requests for an attribution")
    return {share.name: (share.share, share.low, share.high) for share in found.shares}
