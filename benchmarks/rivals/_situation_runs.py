"""Runs of the thirteen situations, in the process of every library."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from rivals._process import SubjectFailedError
from rivals._situation_result import SituationResult
from rivals._situations import SITUATIONS
from rivals._subjects import BASELINE, Mode, Subject
from rivals._turns import Field

_AT_ONCE = 2
"""Number of processes at the same time; they mostly wait, so they disturb each other little."""


def run_situations(taking_part: Field) -> Mapping[str, Mapping[str, SituationResult]]:
    """
    Return the results by library and situation; a library whose process fails is left out.
    """
    by_library = {each.library.name: each for each in taking_part.subjects}
    # Only the last of two subjects with the same library runs, and the bare client runs once.
    subjects = [BASELINE, *(each for name, each in by_library.items() if name != "bare")]

    def results_of(subject: Subject) -> Mapping[str, SituationResult] | SubjectFailedError:
        process = taking_part.start(subject, Mode.AT_ONCE)
        if process is None:
            return {}
        with process:
            try:
                return {
                    each.name: SituationResult(**process.ask(situation=each.name))
                    for each in SITUATIONS
                }
            except SubjectFailedError as error:
                return error

    results: dict[str, Mapping[str, SituationResult]] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for subject, found in zip(subjects, pool.map(results_of, subjects), strict=True):
            if isinstance(found, SubjectFailedError):
                taking_part.drop(subject, found)
            elif found:
                results[subject.library.name] = found
    return results
