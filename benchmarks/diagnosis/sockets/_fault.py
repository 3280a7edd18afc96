"""
A fault of a system on real sockets, and the answers that are right for it.

What is right stands in ``answers_*.json``, apart from the code that injects the fault, and was
written down before the first diagnosis.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

ANSWERS: Final = tuple(sorted(Path(__file__).parent.glob("answers_*.json")))
"""Files with the right answers, by name of the fault."""


class Made(NamedTuple):
    """
    What one run of a fault has made.

    Args:
        recording: Folder of the recording.
        calibration: Folder of a measurement at concurrency 1, if the fault comes with one.
    """

    recording: Path
    calibration: Path | None = None


Inject = Callable[[Path, Random], Made]
"""Starts the parts with drawn parameters, records requests in a folder, and ends the parts."""


@dataclass(frozen=True, slots=True)
class Fault:
    """
    A system with one fault, or with none.

    Args:
        name: Unique name, for example ``slots-two-of-twelve``.
        inject: Makes a recording.
    """

    name: str
    inject: Inject


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What a diagnosis of a fault should state.

    Args:
        family: ``server``, ``gateway``, ``network``, ``client`` or ``application``.
        goal: Goal that is diagnosed, with a limit for a healthy system.
        causes: Names of the causes of which each is right; ``nothing_to_fix`` for a healthy system.
        segments: Segments of which one must lead or be explained by the cause.
        named: Texts of which one must be in the answer, for example the slow route; empty if any
            answer with the cause will do.
        why: What is injected, and why these answers are right.
    """

    family: str
    goal: str
    causes: frozenset[str]
    segments: frozenset[str]
    named: tuple[str, ...]
    why: str


def answers() -> dict[str, Answer]:
    """Return the right answers, by name of the fault."""
    return {
        name: Answer(
            family=each["family"],
            goal=each["goal"],
            causes=frozenset(each["causes"]),
            segments=frozenset(each["segments"]),
            named=tuple(each.get("named", ())),
            why=each["why"],
        )
        for path in ANSWERS
        for name, each in json.loads(path.read_text()).items()
    }


def parameters_of(name: str, seed: str) -> Random:
    """Return the source of the parameters of one run; each run has its own."""
    return Random(f"{name}:{seed}")  # noqa: S311 - a benchmark
