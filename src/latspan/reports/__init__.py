"""
Reports of recorded data, as text for a terminal and as JSON for programs.

This package reads only records and snapshots, not live requests. Drawing on a terminal needs
``rich``, which is imported on first use; the rest has no dependencies.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from latspan._metrics import Expectations
from latspan.reports._extra import needs_study

if TYPE_CHECKING:
    from latspan.reports._diagnosis import DiagnosisReport
    from latspan.reports._report import Report, Waterfall

__all__ = [
    "DiagnosisReport",
    "Expectations",
    "Report",
    "Waterfall",
]

_DRAWN_BY: Final = {
    "DiagnosisReport": "_diagnosis",
    "Report": "_report",
    "Waterfall": "_report",
}


def __getattr__(name: str) -> object:
    if name not in _DRAWN_BY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    with needs_study():
        module = importlib.import_module(f"{__name__}.{_DRAWN_BY[name]}")
    return getattr(module, name)
