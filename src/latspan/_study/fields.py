"""
Types of the fields of JSON documents.

Each document is a ``TypedDict``, so that pyright checks the function that builds it. Its class has
the name of the document and its version in the field ``schema``, and a description of a field as
text in ``Annotated``. The first paragraph of its docstring is the title of the schema, and the
other ones are its description. ``scripts/json_schemas.py`` generates the published schema from the
class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    Range of a number; ``None`` for no limit.

    Args:
        minimum: Smallest value.
        maximum: Largest value.
        above: Largest number below the range.
        below: Smallest number above the range.
    """

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """
    Number of elements of a list; ``None`` for no limit.

    Args:
        minimum: Smallest number.
        maximum: Largest number.
    """

    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """
    Format of a text.

    Args:
        name: Its name in JSON Schema, for example ``date``.
    """

    name: str


Count = Annotated[int, Limits(minimum=0)]
"""Number of something."""

Date = Annotated[str, Format("date")]
"""A day, for example ``2026-11-30``."""

DateTime = Annotated[str, Format("date-time")]
"""An instant, for example ``2026-11-30T12:00:00Z``."""

Fraction = Annotated[float, Limits(minimum=0, maximum=1)]
"""A part of a whole."""

Percentile = Annotated[float, Limits(minimum=1, below=100)]
"""A percentile, for example 95."""

Seconds = Annotated[float, Limits(minimum=0)]
"""A time in seconds."""
