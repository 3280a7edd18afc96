"""
The loop of an inference path: results of its tasks, where it stands, and what is still missing.

The package reads and writes results next to the file of an inference path. It does not depend on
how its conclusions are shown.
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
from latspan._study.loop._loop import Loop, State, TaskState, assess, changed_since
from latspan._study.loop._readings import first_unmet, measurement_text
from latspan._study.loop._results import (
    RESULT_SCHEMA,
    Result,
    Task,
    fingerprints_of,
    keep_result,
    read_results,
)

__all__ = [
    "RESULT_SCHEMA",
    "Criterion",
    "Listed",
    "Loop",
    "NextCommand",
    "Result",
    "State",
    "Task",
    "TaskState",
    "assess",
    "changed_since",
    "criteria_of",
    "fingerprints_of",
    "first_unmet",
    "is_done",
    "keep_result",
    "loop_of",
    "loops_in",
    "measurement_text",
    "missing_fields",
    "next_after_write_up",
    "next_of",
    "read_results",
]
