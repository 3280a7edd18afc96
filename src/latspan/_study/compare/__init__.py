"""
Comparison: is it faster, or is it chance; and which segment explains it.

The package reads recordings, histograms and baselines, and knows nothing of how results are shown.
"""

from __future__ import annotations

from latspan._study.compare._baseline import (
    BASELINE_SCHEMA,
    BaselineDocument,
    baseline_document,
    check_baseline_name,
    read_baseline,
    runs_of_baseline,
)
from latspan._study.compare._comparison import (
    Comparison,
    Failures,
    compare,
    compare_by,
)
from latspan._study.compare._conditions import Difference, Weight, differences
from latspan._study.compare._explanation import Explanation, SegmentChange
from latspan._study.compare._question import Judgement, Question, question
from latspan._study.compare._rows import PercentileChange, PercentileRow, mean_of
from latspan._study.compare._run import (
    SEGMENT,
    Band,
    Profile,
    Run,
    RunForm,
    part_of,
    run_of,
    run_of_records,
    where_of,
)
from latspan._study.compare._sides import run_of_snapshot, runs_in

__all__ = [
    "BASELINE_SCHEMA",
    "SEGMENT",
    "Band",
    "BaselineDocument",
    "Comparison",
    "Difference",
    "Explanation",
    "Failures",
    "Judgement",
    "PercentileChange",
    "PercentileRow",
    "Profile",
    "Question",
    "Run",
    "RunForm",
    "SegmentChange",
    "Weight",
    "baseline_document",
    "check_baseline_name",
    "compare",
    "compare_by",
    "differences",
    "mean_of",
    "part_of",
    "question",
    "read_baseline",
    "run_of",
    "run_of_records",
    "run_of_snapshot",
    "runs_in",
    "runs_of_baseline",
    "where_of",
]
