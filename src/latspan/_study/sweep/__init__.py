"""
Sweep: every inference path measured again, against its pinned baseline and the previous sweep.

The package selects inference paths and judges their runs. It does not measure, and does not depend
on how its conclusions are shown.
"""

from __future__ import annotations

from latspan._study.sweep._judged import Against, PathSweep, SweepAnswer, SweptTarget, judge
from latspan._study.sweep._memory import (
    baseline_file,
    last_measured,
    last_sweep,
    read_pinned,
    runs_in_sweep,
    seconds_in_sweep,
)
from latspan._study.sweep._traffic import Traffic, traffic_of

__all__ = [
    "Against",
    "PathSweep",
    "SweepAnswer",
    "SweptTarget",
    "Traffic",
    "baseline_file",
    "judge",
    "last_measured",
    "last_sweep",
    "read_pinned",
    "runs_in_sweep",
    "seconds_in_sweep",
    "traffic_of",
]
