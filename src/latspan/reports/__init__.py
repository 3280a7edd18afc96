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
    from latspan.reports._comparison import ComparisonReport
    from latspan.reports._comparison_json import (
        COMPARISON_SCHEMA,
        comparison_document,
        comparison_junit,
        comparison_markdown,
    )
    from latspan.reports._diagnosis import DiagnosisReport
    from latspan.reports._diagnosis_json import (
        DIAGNOSIS_SCHEMA,
        diagnosis_document,
        diagnosis_markdown,
    )
    from latspan.reports._measurement import MeasurementReport
    from latspan.reports._measurement_json import MEASUREMENT_SCHEMA, measurement_document
    from latspan.reports._report import Report
    from latspan.reports._verification import (
        VERIFICATION_SCHEMA,
        VerificationReport,
        verification_document,
        verification_markdown,
    )
    from latspan.reports._waterfall import Waterfall

__all__ = [
    "COMPARISON_SCHEMA",
    "DEFAULT_EXPECTATIONS",
    "DEMO_SCHEMA",
    "DIAGNOSIS_SCHEMA",
    "MEASUREMENT_SCHEMA",
    "VERIFICATION_SCHEMA",
    "ComparisonReport",
    "DiagnosisReport",
    "Expectations",
    "MeasurementReport",
    "Report",
    "VerificationReport",
    "Waterfall",
    "comparison_document",
    "comparison_junit",
    "comparison_markdown",
    "demo_document",
    "diagnosis_document",
    "diagnosis_markdown",
    "measurement_document",
    "needs_study",
    "verification_document",
    "verification_markdown",
]

_HOMES: Final = {
    "COMPARISON_SCHEMA": "_comparison_json",
    "ComparisonReport": "_comparison",
    "comparison_document": "_comparison_json",
    "comparison_junit": "_comparison_json",
    "comparison_markdown": "_comparison_json",
    "DIAGNOSIS_SCHEMA": "_diagnosis_json",
    "DiagnosisReport": "_diagnosis",
    "diagnosis_document": "_diagnosis_json",
    "diagnosis_markdown": "_diagnosis_json",
    "MEASUREMENT_SCHEMA": "_measurement_json",
    "MeasurementReport": "_measurement",
    "Report": "_report",
    "VERIFICATION_SCHEMA": "_verification",
    "VerificationReport": "_verification",
    "Waterfall": "_waterfall",
    "measurement_document": "_measurement_json",
    "verification_document": "_verification",
    "verification_markdown": "_verification",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    with needs_study():
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    return getattr(module, name)
