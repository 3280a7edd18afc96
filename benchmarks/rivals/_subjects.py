"""Who takes turns in a run: a library, and the way in which it is switched on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rivals._libraries import BARE, LATSPAN, RIVALS, Library

__all__ = ["BASELINE", "CONTROL", "SUBJECTS", "Mode", "Subject", "subject_named"]


class Mode(StrEnum):
    """Where a process's telemetry goes."""

    MEMORY = "memory"
    """Into memory, in batches, as to a collector."""
    AT_ONCE = "at once"
    """Into memory, each span when it ends."""
    COLLECTOR = "collector"
    """To a collector, by OTLP over HTTP."""


@dataclass(frozen=True, slots=True)
class Subject:
    """
    One process that takes turns.

    Args:
        name: What tells it from others.
        title: In tables.
        library: What is switched on in it.
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
