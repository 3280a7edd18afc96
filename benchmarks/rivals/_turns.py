"""Turns: all subjects do the same work, one after another, in several rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivals._process import SubjectFailedError, SubjectProcess
from rivals._subjects import BASELINE, Mode, Subject

Values = dict[str, list[float]]
"""Results of one subject by figure, one per round."""


@dataclass(slots=True)
class Field:
    """
    Subjects that take part in a run.

    Args:
        pythons: Interpreter of each library's environment, by the library's name.
        subjects: Subjects that have not failed, the baseline first.
        skipped: Reasons why other subjects and libraries are excluded, by title.
    """

    pythons: Mapping[str, Path]
    subjects: list[Subject]
    skipped: dict[str, str]

    def start(self, subject: Subject, mode: Mode, collector: str = "") -> SubjectProcess | None:
        """Return the subject's process; if it does not start, drop the subject, return ``None``."""
        try:
            return SubjectProcess(self.pythons[subject.library.name], subject, mode, collector)
        except SubjectFailedError as error:
            self.drop(subject, error)
            return None

    def drop(self, subject: Subject, error: SubjectFailedError) -> None:
        """
        Exclude a subject from the rest of the run.

        Raises:
            SubjectFailedError: The subject is the baseline, which every comparison needs.
        """
        if subject is BASELINE:
            raise error
        self.subjects.remove(subject)
        self.skipped[subject.title] = str(error)


def take_turns(
    taking_part: Field,
    works: Mapping[str, int],
    *,
    generations: int,
    mode: Mode = Mode.MEMORY,
    collector: str = "",
) -> dict[str, dict[str, list[Any]]]:
    """
    Let all subjects work in turn; each round begins with another subject.

    Args:
        taking_part: Subjects; a subject that fails is removed.
        works: Number of rounds of each kind of work.
        generations: Number of times that all processes are started.
        mode: Destination of telemetry.
        collector: Address of the collector, for ``Mode.COLLECTOR``.

    Returns:
        Results by subject and figure, one per round, in the order of the rounds. A figure is named
        ``work figure``.
    """
    taken: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(generations):
        with ExitStack() as stack:
            processes: dict[str, SubjectProcess] = {}
            for subject in list(taking_part.subjects):
                if process := taking_part.start(subject, mode, collector):
                    processes[subject.name] = stack.enter_context(process)
            for work, rounds in works.items():
                _rounds(taking_part, processes, taken, work, rounds)
    still_in = {subject.name for subject in taking_part.subjects}
    return {name: dict(values) for name, values in taken.items() if name in still_in}


def _rounds(
    taking_part: Field,
    processes: Mapping[str, SubjectProcess],
    taken: Mapping[str, Mapping[str, list[Any]]],
    work: str,
    rounds: int,
) -> None:
    order = list(taking_part.subjects)
    for number in range(-1, rounds):
        for subject in list(order):
            try:
                if number < 0:
                    processes[subject.name].ask(work=work, warm="yes")
                    continue
                figures = processes[subject.name].ask(work=work)
            except SubjectFailedError as error:
                taking_part.drop(subject, error)
                order.remove(subject)
                continue
            for name, value in figures.items():
                taken[subject.name][f"{work} {name}"].append(value)
        order.append(order.pop(0))
