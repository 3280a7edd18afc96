"""Subjects of a run: each is a library with the way in which it is switched on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rivals._libraries import BARE, LATSPAN, RIVALS, Library


class Mode(StrEnum):
    """Destination of a process's telemetry."""

    MEMORY = "memory"
    """Memory; spans are exported in batches, as to a collector."""
    AT_ONCE = "at once"
    """Memory; each span is exported when it ends."""
    COLLECTOR = "collector"
    """A collector, with OTLP over HTTP."""


@dataclass(frozen=True, slots=True)
class Subject:
    """
    A library in one process, which takes turns with the other subjects.

    Args:
        name: Unique name.
        title: Name in tables.
        library: Library that is switched on in the process.
    """

    name: str
    title: str
    library: Library


BASELINE: Final = Subject("bare", "nothing", BARE)
CONTROL: Final = Subject("control", "control: nothing", BARE)
SUBJECTS: Final = (
    *(Subject(library.name, library.title, library) for library in RIVALS),
    Subject("latspan-own", "latspan, own provider", LATSPAN),
    Subject("latspan", "latspan, application's provider", LATSPAN),
)


def subject_named(name: str) -> Subject:
    """Return the subject called ``name``."""
    return next(each for each in (BASELINE, CONTROL, *SUBJECTS) if each.name == name)
