"""
Diagnosis: which one delay to fix, with evidence, or what is missing to name it.

The package reads records, and knows neither how they came about nor how results are shown.
"""

from __future__ import annotations

from latspan._study.diagnose._attribution import Attribution, Share, attribute
from latspan._study.diagnose._bands import bands_of
from latspan._study.diagnose._budgets import BudgetRow, budget_rows
from latspan._study.diagnose._cause import Cause
from latspan._study.diagnose._diagnosis import Conclusion, Diagnosis, diagnose, diagnose_table
from latspan._study.diagnose._facts import CALIBRATING, Calibration, Facts, calibrate
from latspan._study.diagnose._finding import Finding
from latspan._study.diagnose._goal import Goal, goal_of, parse_goal
from latspan._study.diagnose._recordings import diagnose_recording, lacks_calibration
from latspan._study.diagnose._sources import diagnose_source
from latspan._study.diagnose._table import RequestTable, table_of, units_of

__all__ = [
    "CALIBRATING",
    "Attribution",
    "BudgetRow",
    "Calibration",
    "Cause",
    "Conclusion",
    "Diagnosis",
    "Facts",
    "Finding",
    "Goal",
    "RequestTable",
    "Share",
    "attribute",
    "bands_of",
    "budget_rows",
    "calibrate",
    "diagnose",
    "diagnose_recording",
    "diagnose_source",
    "diagnose_table",
    "goal_of",
    "lacks_calibration",
    "parse_goal",
    "table_of",
    "units_of",
]
