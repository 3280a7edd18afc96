"""
Nanoseconds: inside latspan every time is an integer number of them.

Seconds are used only in exports (OTLP, files), and milliseconds only in settings and reports.
"""

from __future__ import annotations

from typing import Final

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000


def to_seconds(value_ns: float) -> float:
    """Return nanoseconds as seconds."""
    return value_ns / NS_PER_S
