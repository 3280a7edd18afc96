"""
The loop of an inference path: results of its tasks, where it stands, and what is still missing.

The package reads and writes results next to the file of an inference path, and runs the commands
that one user would otherwise type one after another. It does not depend on how its conclusions are
shown.
"""

from __future__ import annotations

from latspan._study.loop._criteria import (
    Criterion,
    NextCommand,
    criteria_of,
    is_done,
    missing_fields,
    next_after_write_up,
    next_of,
)
from latspan._study.loop._folder import Listed, loop_of, loops_in
from latspan._study.loop._interleaved import (
    INVALID_RUNS,
    Order,
    Plan,
    measure_both,
    sides_in_order,
)
from latspan._study.loop._loop import Loop, TaskState, TaskStatus, assess, changed_since
from latspan._study.loop._quality_command import QualityCommand
from latspan._study.loop._readings import first_unmet, judgement_of, measurement_text
from latspan._study.loop._results import (
    RESULT_SCHEMA,
    Result,
    Task,
    fingerprints_of,
    keep_result,
    read_results,
)
from latspan._study.loop._rounds import Rounds, measure_rounds

__all__ = [
    "INVALID_RUNS",
    "RESULT_SCHEMA",
    "Criterion",
    "Listed",
    "Loop",
    "NextCommand",
    "Order",
    "Plan",
    "QualityCommand",
    "Result",
    "Rounds",
    "Task",
    "TaskState",
    "TaskStatus",
    "assess",
    "changed_since",
    "criteria_of",
    "fingerprints_of",
    "first_unmet",
    "is_done",
    "judgement_of",
    "keep_result",
    "loop_of",
    "loops_in",
    "measure_both",
    "measure_rounds",
    "measurement_text",
    "missing_fields",
    "next_after_write_up",
    "next_of",
    "read_results",
    "sides_in_order",
]
