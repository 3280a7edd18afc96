"""Verification of one lever: the goal, its guards, conditions and the quality of the answers."""

from __future__ import annotations

from latspan._study.verify._levers import LEVERS, Lever, lever_named
from latspan._study.verify._quality import Quality, QualityJudgement, compare_quality, score
from latspan._study.verify._verification import Verification, verify

__all__ = [
    "LEVERS",
    "Lever",
    "Quality",
    "QualityJudgement",
    "Verification",
    "compare_quality",
    "lever_named",
    "score",
    "verify",
]
