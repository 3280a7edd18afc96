"""Strict parsing of decimal numbers, for example in headers; ``float`` accepts more."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["as_number"]

_DECIMAL: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,20})?")
"""Decimal number, with up to as many places as the shortest text of a double has."""


def as_number(text: str) -> float | None:
    """
    Return the number that ``text`` contains in ASCII digits, ``None`` for any other text.

    Unlike this function, ``float`` also accepts ``1_000``, ``1e3``, ``inf`` and the digits of other
    scripts.
    """
    return float(text) if _DECIMAL.fullmatch(text) else None
