"""Diagnosis of a recording: which of its requests are judged, and what its manifest knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from latspan._recording.folder import Recording
from latspan._segments import Kind
from latspan._study.diagnose._diagnosis import Diagnosis, diagnose
from latspan._study.diagnose._goal import Goal
from latspan._study.measurement import measured_records, summarize
from latspan._targets import Budget
from latspan.errors import ConfigError

__all__ = ["diagnose_recording"]

_KILLED: Final = "its process was killed, or still runs"


def diagnose_recording(
    recording: Recording,
    goal: Goal | None = None,
    *,
    step: int | None = None,
    calibration: Recording | None = None,
    budget: Budget | None = None,
    stable_tokens: float | None = None,
) -> Diagnosis:
    """
    Return the one delay to fix in a recording.

    Of a load test, only the measured requests of one step are judged: warm-up and drain are not. A
    step with one request in flight is the calibration, unless another recording is.

    Args:
        recording: The recording.
        goal: Metric and percentile to explain. If not given, the first target of the load test, and
            otherwise the p95 of the duration.
        step: Number of the step of a load test, from 0; the last one if not given.
        calibration: Recording of a load test at concurrency 1.
        budget: Limits of components.
        stable_tokens: Number of tokens at the start of each prompt that are the same in all.

    Raises:
        ConfigError: There is no such step.
        OSError: A file cannot be read.
    """
    about: Mapping[str, Any] = recording.manifest.get("measurement", {})
    steps: Sequence[Mapping[str, Any]] = about.get("steps", ())
    if goal is None:
        goal = _goal_of(about)
    # A recording that another program's results were converted into does not have the field.
    is_killed = about.get("ended") is False
    if not steps:
        return diagnose(
            measured_records(recording, 0) if is_killed else recording.records(),
            goal,
            calibration=None if calibration is None else measured_records(calibration, 0),
            budget=budget,
            stable_tokens=stable_tokens,
            invalid=_KILLED if is_killed else None,
            notes=recording.notes,
        )
    number = len(steps) - 1 if step is None else step
    if not 0 <= number < len(steps):
        raise ConfigError(
            f"the measurement has no step {number}", hint=f"use a number from 0 to {len(steps) - 1}"
        )
    judged = summarize(recording).steps[number]
    reasons = [caveat.text for caveat in judged.caveats if caveat.invalidates]
    if is_killed:
        reasons.append(_KILLED)
    calibrating = None if calibration is None else measured_records(calibration, 0)
    alone = [index for index, each in enumerate(steps) if _is_alone(each) and index != number]
    if calibrating is None and alone:
        calibrating = measured_records(recording, alone[0])
    return diagnose(
        measured_records(recording, number),
        goal,
        calibration=calibrating,
        budget=budget,
        stable_tokens=stable_tokens,
        invalid="; ".join(reasons) or None,
        notes=recording.notes,
    )


def _goal_of(about: Mapping[str, Any]) -> Goal:
    targets: Sequence[Mapping[str, Any]] = about.get("targets", ())
    kind = Kind(about["kind"]) if "kind" in about else None
    if not targets:
        return Goal(kind=kind)
    first = targets[0]
    try:
        return Goal(first["metric"], first["percentile"], first["limit_ns"], kind)
    except ConfigError:
        # Segments do not add up to this metric, for example the time per output token.
        return Goal(kind=kind)


def _is_alone(step: Mapping[str, Any]) -> bool:
    return step.get("load", {}).get("concurrency") == 1
