"""
Types of the fields of JSON documents.

Each document is a ``TypedDict``, so that pyright checks the function that builds it. Its class has
the name of the document and its version in the field ``schema``, and a description of a field as
text in ``Annotated``. ``scripts/json_schemas.py`` generates the published schema from the class.
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
        above: Largest number below the range.
        below: Smallest number above the range.
    """

    minimum: float | None = None
    above: float | None = None
    below: float | None = None


Count = Annotated[int, Limits(minimum=0)]
"""Number of something."""

Percentile = Annotated[float, Limits(minimum=1, below=100)]
"""A percentile, for example 95."""

Seconds = Annotated[float, Limits(minimum=0)]
"""A time in seconds."""
