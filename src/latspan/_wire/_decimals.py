"""Which texts are numbers, in headers for example: Python's own reading is more generous."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["as_number"]

_DECIMAL: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,20})?")
"""As many places as the shortest text of a double has."""


def as_number(text: str) -> float | None:
    """
    Return the number that a text is in ASCII digits, ``None`` where it is anything else.

    ``float`` also takes ``1_000``, ``1e3``, ``inf`` and the digits of other scripts.
    """
    return float(text) if _DECIMAL.fullmatch(text) else None
