"""Diagnosis of a recording: which of its requests are judged, and what its manifest contains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from latspan._model.goals import Budget, CacheState
from latspan._model.recording.folder import (
    LoadTest,
    Recording,
    StepAccount,
    counted,
    is_recording,
    lacks_lines,
    load_test_of,
    open_recording,
)
from latspan._model.segments import SegmentName
from latspan._study.diagnose._diagnosis import Diagnosis, diagnose_by, diagnose_table
from latspan._study.diagnose._facts import CALIBRATING, Calibration, calibrate
from latspan._study.diagnose._goal import Goal
from latspan._study.diagnose._table import RequestTable, units_of
from latspan._study.measurement import refuse_step, summarize
from latspan._study.stats import TargetVerdict, target_verdict
from latspan._study.table import ChunkReader, Table, metric_of, read_table, wanted_attributes
from latspan.errors import ConfigError, RecordingError

_KILLED: Final = "its process was killed, or still runs"

_SAME_SYSTEM: Final = ("measured", "model", "platform")
"""Conditions that a load test and its calibration have in common."""

_MIN_STABLE: Final = 64
"""
Number of tokens below which a text that all prompts share is not a template: four blocks of vLLM's
prefix cache.
"""


def diagnose_recording(
    recording: Recording,
    goal: Goal | None = None,
    *,
    step: int | None = None,
    calibration: Recording | None = None,
    budget: Budget | None = None,
    stable_tokens: float | None = None,
    where: Mapping[str, str] | None = None,
    by: str | None = None,
    beside: ChunkReader | None = None,
) -> Diagnosis:
    """
    Return the one delay to fix in a recording.

    For a load test, only the measured requests of one step are judged, not warm-up and drain. The
    calibration is the recording that is given, or a step with one request in flight, or the newest
    load test of the same system at concurrency 1 that lies beside the recording.

    Args:
        recording: The recording.
        goal: Metric and percentile to explain. If not given, the first target of the load test, and
            otherwise the p95 of the duration.
        step: Number of the step of a load test, from 0; the last one if not given.
        calibration: Recording of a load test at concurrency 1.
        budget: Limits of components.
        stable_tokens: Number of tokens that are the same in all prompts; if not given, those that
            all prompts of the file share that the load test sent.
        where: Value of each attribute that the units must have; all units if not given.
        by: Attribute by whose values the units are divided, if they are.
        beside: Reader that gets the lines of the recording.

    Raises:
        ConfigError: There is no such step, or no unit with an attribute of ``where`` or with the
            attribute ``by``.
        OSError: A file cannot be read.
    """
    load_test = load_test_of(recording.manifest)
    refuse_step(recording, step)
    steps = _steps(recording)
    if goal is None:
        goal = _goal_of(load_test)
    # A recording that another program's results were converted into does not have the field.
    reasons = [_KILLED] if load_test is not None and load_test.ended is False else []
    number = 0
    if steps:
        number = len(steps) - 1 if step is None else step
        if not 0 <= number < len(steps):
            raise ConfigError(
                f"the measurement has no step {number}",
                hint=f"use a number from 0 to {len(steps) - 1}",
            )
    notes = list(recording.notes)
    others = [index for index, each in enumerate(steps) if each.is_alone and index != number]
    metrics = dict.fromkeys((goal.metric, CALIBRATING.metric) if others else (goal.metric,))
    where = where or {}
    wanted = wanted_attributes(where, by)
    every = read_table(
        recording,
        tuple(metrics),
        kind=goal.kind,
        where=wanted,
        gaps=True,
        beside=beside,
    )
    calibrated: Calibration | None = None
    beside_it: Recording | None = None
    fault = ""
    if calibration is not None:
        calibrated, fault = calibration_from(calibration)
        if fault:
            notes.append(invalid_calibration(calibration, fault))
    elif others:
        calibrated = calibrate(units_of(every.rows(every.measured(others[0])), CALIBRATING))
    elif (beside_it := calibration_beside(recording)) is not None:
        # A damaged neighbour is no reason to refuse this recording.
        with suppress(OSError, RecordingError):
            calibrated, fault = calibration_from(beside_it)
    judged = every.rows(every.measured(number if steps or reasons else None))
    if steps:
        caveats = summarize(recording, every).steps[number].caveats
        reasons = [*(each.text for each in caveats if each.invalidates), *reasons]
    judged = judged.matching(where)
    if beside_it is not None and calibrated is not None and SegmentName.SERVER_WAIT in judged.names:
        note = f"The calibration is {beside_it.folder}, a load test at concurrency 1."
        if fault:
            note = f"The calibration {beside_it.folder} is invalid, and not used: {fault}."
        notes.append(note)
    if beside_it is not None and fault:
        calibrated = None

    def judge(units: Table) -> Diagnosis:
        table = units_of(units, goal)
        return diagnose_table(
            table,
            calibration=calibrated,
            budget=budget,
            stable_tokens=_stable_in(recording, table) if stable_tokens is None else stable_tokens,
            target=(
                _counted_target(recording, table)
                # The histograms count all requests.
                if not steps and not wanted and (judged.is_sampled or lacks_lines(recording))
                else None
            ),
            invalid="; ".join(reasons) or None,
            notes=notes,
        )

    return diagnose_by(judged, by, judge)


def calibration_from(recording: Recording) -> tuple[Calibration | None, str]:
    """
    Return the calibration of a recording, by the first step of a load test.

    Returns:
        The calibration, and why the load test is invalid; empty if it is not.
    """
    table = read_table(recording, (CALIBRATING.metric,))
    fault = ""
    if _steps(recording):
        caveats = summarize(recording, table).steps[0].caveats
        fault = "; ".join(each.text for each in caveats if each.invalidates)
        table = table.rows(table.measured(0))
    return calibrate(units_of(table, CALIBRATING)), fault


def invalid_calibration(calibration: Recording, fault: str) -> str:
    """Return the note on a given calibration that is used although it is invalid."""
    return f"The calibration {calibration.folder} is invalid: {fault}."


def calibration_beside(recording: Recording) -> Recording | None:
    """
    Return the newest load test at concurrency 1 of the same system, from the same folder.

    Args:
        recording: Recording of a load test.

    Returns:
        ``None`` if there is none, or if the recording is no load test or is a calibration itself.
    """
    steps = _steps(recording)
    if not steps or any(step.is_alone for step in steps):
        return None
    beside = [
        other
        for other in _neighbours(recording)
        if _is_calibration(other)
        and all(
            other.conditions.get(name) == recording.conditions.get(name) for name in _SAME_SYSTEM
        )
    ]
    return max(beside, key=lambda each: str(each.manifest.get("created", "")), default=None)


def _neighbours(recording: Recording) -> Iterator[Recording]:
    """Yield the recordings in the same folder; one that cannot be read is left out."""
    for folder in recording.folder.resolve().parent.iterdir():
        with suppress(OSError, RecordingError):
            if is_recording(folder):
                yield open_recording(folder)


def lacks_calibration(recording: Recording, table: Table) -> bool:
    """
    Return whether a calibration would divide waits of a load test, and there is none.

    Args:
        recording: Recording of a load test.
        table: Its units.
    """
    steps = _steps(recording)
    return (
        bool(steps)
        and SegmentName.SERVER_WAIT in table.names
        and not table.reported.any()
        and not any(step.is_alone for step in steps)
        and calibration_beside(recording) is None
    )


def _is_calibration(recording: Recording) -> bool:
    """Return whether one client alone sent the requests, until the intended end."""
    load_test = load_test_of(recording.manifest)
    return (
        load_test is not None
        and [step.is_alone for step in load_test.steps] == [True]
        and load_test.ended is not False
    )


def _steps(recording: Recording) -> Sequence[StepAccount]:
    """Return the steps of a load test; empty for another recording."""
    load_test = load_test_of(recording.manifest)
    return () if load_test is None else load_test.steps


def _counted_target(recording: Recording, table: RequestTable) -> TargetVerdict | None:
    """
    Return the verdict on a limit by the recording's histograms, which count every request.

    The lines of the recording are a sample. ``None`` without a limit or without histograms.
    """
    goal = table.goal
    if goal.limit_ns is None:
        return None
    every = counted(recording)
    if every is None:
        return None
    found = every.metric(metric_of(goal.metric, table.kind), kind=table.kind).population
    if found is None or not found.count:
        return None
    surely, perhaps = (round(each * found.count) for each in found.fraction_above(goal.limit_ns))
    return target_verdict(found.count, surely, goal.percentile, undecided=perhaps - surely)


def _stable_in(recording: Recording, table: RequestTable) -> float | None:
    """
    Return the number of tokens that all prompts of a load test share; ``None`` if it is unknown.

    Generated prompts have no template. With a cold cache, the load generator itself puts a text
    that always differs in front of each prompt, which is not a fault of the template.
    """
    prompts: Mapping[str, Any] = recording.conditions.get("prompts", {})
    shared = prompts.get("shared")
    if prompts.get("source") != "file" or recording.conditions.get("cache") == CacheState.COLD:
        return None
    tokens = table.number("input_tokens")
    known = tokens[np.isfinite(tokens)]
    if not isinstance(shared, int | float) or not len(known):
        return None
    stable = float(shared * known.mean())
    return stable if stable >= _MIN_STABLE else None


def _goal_of(load_test: LoadTest | None) -> Goal:
    if load_test is None:
        return Goal()
    kind = load_test.kind
    if not load_test.target_fields:
        return Goal(kind=kind)
    first = load_test.target_fields[0]
    try:
        return Goal(first["metric"], first["percentile"], first["limit_ns"], kind)
    except ConfigError:
        # Segments do not add up to this metric, for example the time per output token.
        return Goal(kind=kind)
