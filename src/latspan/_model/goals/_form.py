"""Forms that a value in the file of an inference path can have."""

from __future__ import annotations

from enum import Enum, auto


class Form(Enum):
    """Form of a value in a file."""

    TEXT = auto()
    TEXTS = auto()
    NUMBER = auto()
    COUNT = auto()
    MILLISECONDS = auto()
    DATE = auto()
    CHOICE = auto()
    TABLE = auto()
    TABLES = auto()
    GOAL = auto()
