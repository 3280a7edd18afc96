"""The thirteen situations, let happen in the process of every library."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from rivals._process import SubjectFailedError
from rivals._situations import SITUATIONS
from rivals._subjects import BASELINE, Mode, Subject
from rivals._turns import Field
from rivals._witness import Testimony

__all__ = ["hear"]

_AT_ONCE = 2
"""They mostly wait, so as many processes as this do not disturb each other much."""


def hear(taking_part: Field) -> Mapping[str, Mapping[str, Testimony]]:
    """Return what each library said, by its name and the situation's; whoever fails is out."""
    by_library = {each.library.name: each for each in taking_part.subjects}
    # Of two subjects with the same library the last is heard, and once is enough for the client.
    subjects = [BASELINE, *(each for name, each in by_library.items() if name != "bare")]

    def testimony(subject: Subject) -> Mapping[str, Testimony] | SubjectFailedError:
        process = taking_part.start(subject, Mode.AT_ONCE)
        if process is None:
            return {}
        with process:
            try:
                return {
                    each.name: Testimony(**process.ask(situation=each.name)) for each in SITUATIONS
                }
            except SubjectFailedError as error:
                return error

    heard: dict[str, Mapping[str, Testimony]] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for subject, said in zip(subjects, pool.map(testimony, subjects), strict=True):
            if isinstance(said, SubjectFailedError):
                taking_part.drop(subject, said)
            elif said:
                heard[subject.library.name] = said
    return heard
