"""Scorecard: latency, timeouts, completion and targets of each week and month."""

from __future__ import annotations

from latspan._study.scorecard._card import Card, Row, Scorecard, ScorecardBuilder
from latspan._study.scorecard._periods import Cycle, Period, period_of
from latspan._study.scorecard._sources import add_source
from latspan._study.scorecard._tally import PERCENTILES, Figures, Ratio, Tally

__all__ = [
    "PERCENTILES",
    "Card",
    "Cycle",
    "Figures",
    "Period",
    "Ratio",
    "Row",
    "Scorecard",
    "ScorecardBuilder",
    "Tally",
    "add_source",
    "period_of",
]
