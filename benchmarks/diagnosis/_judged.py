"""One cell: simulate, write a recording, read it, diagnose, and compare with the truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from diagnosis._cells import Cell, Evidence
from latspan._model.recording import RequestRecord
from latspan._model.recording.folder import open_recording
from latspan._study.diagnose import (
    CALIBRATING,
    Conclusion,
    Diagnosis,
    calibrate,
    diagnose,
    parse_goal,
    table_of,
)
from support.simulation import (
    FAULTS,
    HEALTHY,
    Fault,
    Scenario,
    noisy,
    records_of,
    requests_of,
    scenario_of,
    write_recording,
)

_CALIBRATION_REQUESTS: Final = 100
_TRUTH_REQUESTS: Final = 5_000
"""Requests of the simulations that give the truth: a queue near its capacity varies slowly."""
_TRUTH_SEED: Final = 77
_EQUAL: Final = 0.75
"""Ratio of two gains from which either of two faults is a right answer."""

_INSIDE: Final = frozenset({"queue", "prefill"})
"""Segments that only evidence of the server or a calibration separates."""

_DECISIVE: Final = 0.4
"""
Fraction of the percentile that removing one fault of a pair has to save. Below, the largest part of
the time is that of the healthy system.
"""

_HEALTHY_LIMIT: Final = 1.2
"""Limit of a healthy system as a multiple of its true percentile."""


class Result(StrEnum):
    """How a diagnosis compares with the truth."""

    RIGHT = "right"
    """The verdict names the cause."""
    TIE = "tie"
    """Two segments are too close to call, or the time is spread out."""
    WRONG = "wrong"
    """The verdict names another cause."""


@dataclass(frozen=True, slots=True)
class Judged:
    """
    A diagnosis and the truth.

    Args:
        cell: What was simulated.
        expected: Causes that are right, joined by a slash.
        answer: Cause or conclusion of the diagnosis.
        result: How they compare.
        splits: Whether the diagnosis separates queue and prefill.
        sentence: The diagnosis.
    """

    cell: Cell
    expected: str
    answer: str
    result: Result
    splits: bool
    sentence: str


def judged(cell: Cell) -> Judged | None:
    """Return the diagnosis of a cell, and the truth; ``None`` if no fault of a pair is decisive."""
    expected = _expected(cell)
    if cell.faults and not expected:
        return None
    scenario = _scenario(cell)
    goal = _goal(cell)
    calibration = None
    if cell.evidence is Evidence.CALIBRATED:
        calibration = calibrate(table_of(_calibration(cell), CALIBRATING))
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_recording(folder, _records(scenario, cell.seed))
        diagnosis = diagnose(
            open_recording(folder).records(),
            replace(parse_goal(goal), limit_ns=_limit_ns(goal) if not cell.faults else None),
            calibration=calibration,
            stable_tokens=scenario.stable or None,
        )
    answer = _answer(diagnosis)
    return Judged(
        cell,
        "/".join(sorted({fault.cause for fault in expected})) or Conclusion.NOTHING_TO_FIX,
        answer,
        _result(cell, diagnosis, expected),
        diagnosis.finding is not None and bool(_INSIDE & set(diagnosis.finding.segments)),
        diagnosis.sentence,
    )


def _scenario(cell: Cell) -> Scenario:
    scenario = scenario_of(*cell.faults, noise=cell.noise)
    if cell.evidence is not Evidence.REPORTED:
        scenario = replace(scenario, reported=False)
    return scenario


def _goal(cell: Cell) -> str:
    goals = {FAULTS[name].goal for name, _ in cell.faults}
    return goals.pop() if len(goals) == 1 else "p95 duration"


def _records(scenario: Scenario, seed: int) -> Iterable[RequestRecord]:
    return records_of(requests_of(scenario, seed), scenario)


def _calibration(cell: Cell) -> list[RequestRecord]:
    """Return a measurement at concurrency 1, of the server before a fault made it slower."""
    base = noisy(HEALTHY) if cell.noise else HEALTHY
    alone = replace(
        base,
        requests=_CALIBRATION_REQUESTS,
        rate_per_s=0.05,
        reported=False,
        prompt=base.prompt._replace(sigma=0.8),
    )
    return list(_records(alone, cell.seed + 1))


@cache
def _percentile_ns(
    faults: tuple[tuple[str, float], ...],
    goal: str,
    *,
    noise: bool,
    rate_per_s: float,
) -> float:
    """Return the true percentile at a load, from a long simulation."""
    scenario = replace(
        scenario_of(*faults, noise=noise), requests=_TRUTH_REQUESTS, rate_per_s=rate_per_s
    )
    parsed = parse_goal(goal)
    table = table_of(_records(scenario, _TRUTH_SEED), parsed)
    return float(np.nanpercentile(table.value_ns, parsed.percentile))


def _limit_ns(goal: str) -> int:
    return round(
        _HEALTHY_LIMIT * _percentile_ns((), goal, noise=True, rate_per_s=HEALTHY.rate_per_s)
    )


def _expected(cell: Cell) -> list[Fault]:
    """Return the faults of which one should be named: those whose removal helps most."""
    if len(cell.faults) < 2:
        return [FAULTS[name] for name, _ in cell.faults]
    goal = _goal(cell)
    rate_per_s = scenario_of(*cell.faults).rate_per_s

    def percentile_ns(*faults: tuple[str, float]) -> float:
        return _percentile_ns(faults, goal, noise=cell.noise, rate_per_s=rate_per_s)

    whole = percentile_ns(*cell.faults)
    gains = [
        whole - percentile_ns(*(other for other in cell.faults if other != fault))
        for fault in cell.faults
    ]
    if max(gains) < _DECISIVE * whole:
        return []
    return [
        FAULTS[name]
        for (name, _), gain in zip(cell.faults, gains, strict=True)
        if gain >= _EQUAL * max(gains)
    ]


def _answer(diagnosis: Diagnosis) -> str:
    if diagnosis.conclusion in (Conclusion.FIX, Conclusion.UNRELIABLE):
        if diagnosis.finding is None:
            return "no cause"
        return diagnosis.finding.cause
    return diagnosis.conclusion.value


def _result(cell: Cell, diagnosis: Diagnosis, expected: list[Fault]) -> Result:
    if not cell.faults:
        met = diagnosis.conclusion is Conclusion.NOTHING_TO_FIX
        return Result.RIGHT if met else Result.TIE if diagnosis.finding is None else Result.WRONG
    if diagnosis.conclusion in (Conclusion.TIE, Conclusion.SPREAD_OUT, Conclusion.TOO_FEW):
        return Result.TIE
    for fault in expected:
        if cell.evidence is Evidence.NONE:
            leader = diagnosis.shares[0].name if diagnosis.shares else ""
            named = () if diagnosis.finding is None else diagnosis.finding.segments
            if not fault.segments or fault.segments & {leader, *named}:
                return Result.RIGHT
        elif _answer(diagnosis) == fault.cause and fault.named in diagnosis.sentence:
            return Result.RIGHT
    return Result.WRONG
