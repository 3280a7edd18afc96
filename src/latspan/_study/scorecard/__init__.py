"""Scorecard: latency, timeouts, completion and targets of each week and month."""

from __future__ import annotations

from latspan._study.scorecard._card import Card, PeriodRow, Scorecard, ScorecardBuilder
from latspan._study.scorecard._periods import Cycle, Period, period_of
from latspan._study.scorecard._sources import add_source
from latspan._study.scorecard._tally import PERCENTILES, Figures, Ratio, Tally

__all__ = [
    "PERCENTILES",
    "Card",
    "Cycle",
    "Figures",
    "Period",
    "PeriodRow",
    "Ratio",
    "Scorecard",
    "ScorecardBuilder",
    "Tally",
    "add_source",
    "period_of",
]
