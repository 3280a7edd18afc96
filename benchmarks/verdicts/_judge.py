"""
One job of the bench: draw some recordings, ask latspan, and count its answers.

The random numbers of a pair or a recording depend on the seed, on the name of its scenario and on
its number alone, so the result does not depend on the number of processes.
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np

from verdicts import adapter
from verdicts._generator import (
    NS_PER_S,
    START_NS,
    Requests,
    System,
    draw,
    observed_of,
    write_recording,
)
from verdicts._scenarios import CELLS, PAIRS, POWER, RUNS_PER_SIDE, Cell, Pair, Power, drawn_size

FILES_EVERY: Final = 20
"""Of this many recordings of a cell, one is judged from files by each command."""

_SPACING_NS: Final = 1800 * NS_PER_S
_SCENARIOS: Final = {each.name: each for each in (*PAIRS, *POWER, *CELLS)}


class Job(NamedTuple):
    """
    Some pairs of a scenario, or some recordings of a cell.

    Args:
        name: Name of the scenario or the cell.
        seed: Seed of the bench.
        first: Number of the first one.
        last: Number after that of the last one.
    """

    name: str
    seed: int
    first: int
    last: int


class Judged(NamedTuple):
    """
    Answers to a job.

    Args:
        name: Name of the scenario or the cell.
        size: Number of pairs or recordings.
        answers: Number of answers, by the command that gave it and the answer.
    """

    name: str
    size: int
    answers: Counter[tuple[str, str]]


def judged(job: Job) -> Judged:
    """Return latspan's answers to a job."""
    scenario = _SCENARIOS[job.name]
    answers: Counter[tuple[str, str]] = Counter()
    for number in range(job.first, job.last):
        rng = np.random.default_rng([job.seed, zlib.crc32(job.name.encode()), number])
        with TemporaryDirectory(prefix="latspan-verdicts-") as folder:
            if isinstance(scenario, Cell):
                answers.update(_about_target(scenario, number, rng, Path(folder)))
            else:
                answers["compare", _about_pair(scenario, number, rng, Path(folder))] += 1
    return Judged(job.name, job.last - job.first, answers)


def _about_pair(pair: Pair | Power, number: int, rng: np.random.Generator, folder: Path) -> str:
    sides = [("before", pair.before), ("after", pair.after)]
    drift, one_side_first = 0.0, False
    if isinstance(pair, Pair):
        if pair.alternate and number % 2:
            sides = [("before", pair.after), ("after", pair.before)]
        drift = float(rng.choice((-1, 1))) * pair.drift
        one_side_first = pair.order == "one_side_first"
    runs = [(run, *side) for run in range(RUNS_PER_SIDE) for side in sides]
    if one_side_first:
        runs.sort(key=lambda each: each[1], reverse=True)
    for position, (run, side, system) in enumerate(runs):
        progress = 2 * position / (len(runs) - 1) - 1
        requests = draw(
            system,
            rng,
            level=system.runs.level(rng) * (1 + drift * progress),
            start_ns=START_NS + position * _SPACING_NS,
        )
        _write(folder / side / str(run), system, requests, rng)
    return adapter.compare_sides(folder / "before", folder / "after")


def _about_target(
    cell: Cell, number: int, rng: np.random.Generator, folder: Path
) -> list[tuple[str, str]]:
    system = replace(cell.system, requests=drawn_size(rng))
    requests = draw(system, rng)
    answers: list[tuple[str, str]] = []
    if cell.in_memory:
        observed = observed_of(requests)
        answers.append(("assert_target", adapter.target(observed, cell.goal, cell.limit_ms)))
    by_scorecard = number % FILES_EVERY == 0
    if by_scorecard or not cell.in_memory:
        path = folder / "recording"
        _write(path, system, requests, rng)
        answers.append(("diagnose", adapter.target(path, cell.goal, cell.limit_ms)))
        if by_scorecard:
            answer = adapter.scorecard_target(path, cell.goal, cell.limit_ms)
            answers.append(("scorecard", answer))
    return answers


def _write(folder: Path, system: System, requests: Requests, rng: np.random.Generator) -> None:
    write_recording(folder, system, requests, f"{int(rng.integers(2**62)):016x}")
