"""
Reports of recorded data, as text for a terminal and as JSON for programs.

This package reads only records and snapshots, not live requests. Drawing on a terminal needs
``rich``, which is imported on first use; the rest has no dependencies.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from latspan._model.metrics import Expectations
from latspan.reports._extra import needs_study

if TYPE_CHECKING:
    from latspan._study.render.diagnosis import DiagnosisReport
    from latspan._study.render.report import Report, Waterfall

__all__ = [
    "DiagnosisReport",
    "Expectations",
    "Report",
    "Waterfall",
]

_DRAWN_BY: Final = {
    "DiagnosisReport": "diagnosis",
    "Report": "report",
    "Waterfall": "report",
}


def __getattr__(name: str) -> object:
    if name not in _DRAWN_BY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    with needs_study():
        module = importlib.import_module(f"latspan._study.render.{_DRAWN_BY[name]}")
    return getattr(module, name)
