"""
Reports of recorded data, as text for a terminal and as JSON for programs.

This package reads only records and snapshots, not live requests. Drawing on a terminal needs
``rich``, which is imported on first use; the rest has no dependencies.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from latspan._metrics import DEFAULT_EXPECTATIONS, Expectations
from latspan.reports._extra import needs_study
from latspan.reports._json import DEMO_SCHEMA, demo_document

if TYPE_CHECKING:
    from latspan.reports._diagnosis import DiagnosisReport
    from latspan.reports._diagnosis_json import (
        DIAGNOSIS_SCHEMA,
        diagnosis_document,
        diagnosis_markdown,
    )
    from latspan.reports._measurement import MeasurementReport
    from latspan.reports._measurement_json import MEASUREMENT_SCHEMA, measurement_document
    from latspan.reports._report import Report
    from latspan.reports._waterfall import Waterfall

__all__ = [
    "DEFAULT_EXPECTATIONS",
    "DEMO_SCHEMA",
    "DIAGNOSIS_SCHEMA",
    "MEASUREMENT_SCHEMA",
    "DiagnosisReport",
    "Expectations",
    "MeasurementReport",
    "Report",
    "Waterfall",
    "demo_document",
    "diagnosis_document",
    "diagnosis_markdown",
    "measurement_document",
    "needs_study",
]

_HOMES: Final = {
    "DIAGNOSIS_SCHEMA": "_diagnosis_json",
    "DiagnosisReport": "_diagnosis",
    "diagnosis_document": "_diagnosis_json",
    "diagnosis_markdown": "_diagnosis_json",
    "MEASUREMENT_SCHEMA": "_measurement_json",
    "MeasurementReport": "_measurement",
    "Report": "_report",
    "Waterfall": "_waterfall",
    "measurement_document": "_measurement_json",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    with needs_study():
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    return getattr(module, name)
