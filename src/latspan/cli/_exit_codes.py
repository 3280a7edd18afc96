"""
Exit codes of the commands that judge a measurement, for scripts and CI.

The code 2 is that of every command for an invalid command line or setting.
"""

from __future__ import annotations

from typing import Final

__all__ = ["INCONCLUSIVE", "MISSED", "NOT_INTERPRETABLE"]

MISSED: Final = 1
"""A target is missed, or a comparison ended worse."""

INCONCLUSIVE: Final = 3
"""There is no answer yet: more requests or runs are needed, or two causes are too close."""

NOT_INTERPRETABLE: Final = 4
"""A measurement is invalid, two sides are not comparable, or a file cannot be interpreted."""
