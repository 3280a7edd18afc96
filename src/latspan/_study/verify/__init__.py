"""Verification of one lever: the goal, its guards, conditions and the quality of the answers."""

from __future__ import annotations

from latspan._study.verify._levers import LEVERS, Lever, lever_named
from latspan._study.verify._quality import (
    CommandQuality,
    Quality,
    QualityJudgement,
    check_answers,
    check_items,
    compare_quality,
)
from latspan._study.verify._scorers import scorer_of
from latspan._study.verify._verification import Verification, verify

__all__ = [
    "LEVERS",
    "CommandQuality",
    "Lever",
    "Quality",
    "QualityJudgement",
    "Verification",
    "check_answers",
    "check_items",
    "compare_quality",
    "lever_named",
    "scorer_of",
    "verify",
]
