"""
Where an inference path stands in the loop: the state of each task, and the next command.

A pass of the loop begins with a measurement that does not prove that the targets are met, and ends
with a write-up. Results that are older than this measurement belong to an earlier pass. A
measurement that proves the targets begins no pass: it only watches what was achieved.

The state of a task follows from results and fingerprints alone, so two people who see the same
files see the same state.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from latspan._model.goals import SUFFIX, InferencePath
from latspan._model.text import listed
from latspan._study.compare import Judgement
from latspan._study.diagnose import Conclusion
from latspan._study.loop._readings import (
    conclusion_of,
    judgement_of,
    may_hurt_quality,
    measurement_text,
    metrics_without_values,
    quality_of,
    requests_to_decide,
    runs_to_decide,
    sentence_of,
    sweep_calls_for_more,
    sweep_text,
    verdict_of,
    verification_text,
)
from latspan._study.loop._results import Result, Task
from latspan._study.stats import Verdict
from latspan._study.verify import LEVERS

_MEASURED: Final = ("endpoint", "model", "target", "traffic", "prompts", "template")
"""Parts of the file that a measurement depends on."""

_AGAIN: Final = frozenset({Conclusion.INVALID, Conclusion.TOO_FEW, Conclusion.NOT_INSTRUMENTED})
"""Conclusions that call for another measurement."""


class TaskStatus(StrEnum):
    """State of a task."""

    DONE = "done"
    OPEN = "open"
    STALE = "stale"
    """It was done, but for other contents of the file, or in an earlier pass."""
    NOT_NEEDED = "not_needed"


@dataclass(frozen=True, slots=True)
class TaskState:
    """
    State of one task.

    Args:
        task: The task.
        state: Its state.
        text: Its result, or what it lacks; empty if it has not begun.
        day: Date of its result; empty without one.
    """

    task: Task
    state: TaskStatus
    text: str = ""
    day: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """
    Progress of one inference path.

    Args:
        path: The inference path.
        file: Its file.
        tasks: States of all tasks, in the order of the loop.
        latest: The newest measurement, if it still applies to the file.
        baseline: Measurement that the pass began with.
        diagnosis: Diagnosis of the baseline.
        verification: Verification of the change, if it is of this pass.
        write_up: The newest write-up.
        sweep: The newest sweep, if it still applies to the file and is newer than the measurement.
    """

    path: InferencePath
    file: Path
    tasks: tuple[TaskState, ...]
    latest: Result | None
    baseline: Result | None
    diagnosis: Result | None
    verification: Result | None
    write_up: Result | None
    sweep: Result | None

    def state(self, task: Task) -> TaskState:
        """Return the state of a task."""
        return next(each for each in self.tasks if each.task is task)

    @property
    def is_met(self) -> bool:
        """Whether the newest measurement proves that all targets are met."""
        return self.latest is not None and verdict_of(self.latest) is Verdict.MET

    @property
    def missing_file(self) -> str | None:
        """Name of the file of prompts or of the template, if it does not exist."""
        prompt = self.path.prompt
        for name in (prompt.prompts, prompt.template):
            if name and not _is_file(self.file.parent / name):
                return name
        return None

    @property
    def edit_command(self) -> str:
        """Command that opens its file in the user's editor."""
        return f"${{EDITOR:-vi}} {shlex.quote(self.file.name)}"

    @property
    def name(self) -> str:
        """Name of the inference path for commands in the folder of its file."""
        stem = self.file.stem
        # A folder or a file of that name would be taken for a recording.
        shown = f"{stem}{SUFFIX}" if (self.file.parent / stem).exists() else stem
        return shlex.quote(shown)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    # A name that is too long, or has a null character, is of no file.
    except (OSError, ValueError):
        return False


def assess(
    path: InferencePath, file: Path, results: Sequence[Result], prints: Mapping[str, str]
) -> Loop:
    """
    Return where an inference path stands.

    Args:
        path: The inference path.
        file: Its file.
        results: Its results, the oldest first.
        prints: Fingerprints of the present contents of its file.
    """
    history = _History(results, prints)
    target = _target(path)
    measure = history.measure()
    diagnose = history.diagnose(measure)
    change = history.change(path, measure)
    verify = history.verify(path, measure)
    document = history.document(measure, verify)
    verification = history.verification if verify.state is TaskStatus.DONE else None
    if verify.state is TaskStatus.OPEN and history.is_current(history.verification):
        verification = history.verification
    baseline = history.before(verification, Task.MEASURE)
    diagnosis = history.before(verification, Task.DIAGNOSE)
    if baseline is not None and diagnosis is not None and diagnosis.created < baseline.created:
        diagnosis = None
    return Loop(
        path=path,
        file=file,
        tasks=(
            target,
            _instrument(path, history, diagnose),
            measure,
            diagnose,
            change,
            verify,
            document,
            _watch(history, document),
        ),
        latest=None if measure.state is TaskStatus.STALE else history.measurement,
        baseline=baseline,
        diagnosis=diagnosis,
        verification=verification,
        write_up=history.write_up,
        sweep=history.sweep,
    )


def changed_since(
    result: Result, prints: Mapping[str, str], parts: Sequence[str] = _MEASURED
) -> list[str]:
    """
    Return the parts of the file of an inference path that changed since a result.

    Args:
        result: The result.
        prints: Fingerprints of the present contents of the file.
        parts: Parts that count; by default those that a measurement depends on.
    """
    return [part for part in parts if result.fingerprints.get(part) != prints.get(part)]


def _target(path: InferencePath) -> TaskState:
    labels = "; ".join(each.label for each in path.targets)
    if not path.endpoint:
        return TaskState(Task.TARGET, TaskStatus.OPEN, f"{labels}; endpoint is empty")
    return TaskState(Task.TARGET, TaskStatus.DONE, labels)


def _instrument(path: InferencePath, history: _History, diagnose: TaskState) -> TaskState:
    diagnosis = history.diagnosis
    if (
        diagnosis is not None
        and diagnose.state is TaskStatus.OPEN
        and conclusion_of(diagnosis) is Conclusion.NOT_INSTRUMENTED
    ):
        return TaskState(Task.INSTRUMENT, TaskStatus.OPEN, "too much of the time is in no segment")
    if "://" in path.endpoint:
        return TaskState(Task.INSTRUMENT, TaskStatus.DONE, "the load client is instrumented")
    if history.measurement is not None:
        return TaskState(Task.INSTRUMENT, TaskStatus.DONE, "the measurement recorded its requests")
    return TaskState(Task.INSTRUMENT, TaskStatus.OPEN, "the measurement will show it")


def _watch(history: _History, document: TaskState) -> TaskState:
    measurement, write_up = history.measurement, history.write_up
    if document.state is not TaskStatus.DONE or measurement is None or write_up is None:
        return TaskState(Task.WATCH, TaskStatus.OPEN)
    sweep = history.sweep
    if sweep is not None and sweep.created > write_up.created:
        state = TaskStatus.OPEN if sweep_calls_for_more(sweep) else TaskStatus.DONE
        return TaskState(Task.WATCH, state, sweep_text(sweep), sweep.day)
    if measurement.created > write_up.created:
        return TaskState(
            Task.WATCH, TaskStatus.DONE, measurement_text(measurement), measurement.day
        )
    return TaskState(Task.WATCH, TaskStatus.OPEN, "no sweep since the write-up")


class _History:
    """
    Results of an inference path, seen from its newest measurement.

    Args:
        results: Results, the oldest first.
        prints: Fingerprints of the present contents of the file.
    """

    def __init__(self, results: Sequence[Result], prints: Mapping[str, str]) -> None:
        self._results = results
        self._prints = prints
        self.measurement = self._newest(Task.MEASURE)
        self.diagnosis = self._newest(Task.DIAGNOSE)
        self.verification = self._newest(Task.VERIFY)
        self.write_up = self._newest(Task.DOCUMENT)
        self.sweep = self._sweep()

    def _newest(self, task: Task) -> Result | None:
        return next((each for each in reversed(self._results) if each.task is task), None)

    def _sweep(self) -> Result | None:
        found, measurement = self._newest(Task.WATCH), self.measurement
        if found is None or self.changed(found, _MEASURED):
            return None
        # A later measurement is the answer to the sweep.
        return found if measurement is None or found.created > measurement.created else None

    def before(self, end: Result | None, task: Task) -> Result | None:
        """Return the newest result of a task that is older than another result."""
        older = [
            each
            for each in self._results
            if each.task is task and (end is None or each.created < end.created)
        ]
        return older[-1] if older else None

    @property
    def is_met(self) -> bool:
        """Whether the newest measurement proves the targets."""
        return self.measurement is not None and verdict_of(self.measurement) is Verdict.MET

    def is_current(self, result: Result | None) -> bool:
        """Return whether a result belongs to the pass, or to the one that met the targets."""
        if result is None or self.measurement is None:
            return False
        return self.is_met or result.created > self.measurement.created

    def changed(self, result: Result, parts: Sequence[str]) -> list[str]:
        """Return the parts of the file that changed since a result."""
        return changed_since(result, self._prints, parts)

    def measure(self) -> TaskState:
        """Return the state of the measurement."""
        found = self.measurement
        if found is None:
            return TaskState(Task.MEASURE, TaskStatus.OPEN)
        changed = self.changed(found, _MEASURED)
        text = measurement_text(found)
        if changed:
            since = f"changed since then: {listed(changed)}"
            return TaskState(Task.MEASURE, TaskStatus.STALE, since, found.day)
        state = TaskStatus.DONE
        if (
            verdict_of(found) is None
            or metrics_without_values(found)
            or requests_to_decide(found) is not None
        ):
            state = TaskStatus.OPEN
        return TaskState(Task.MEASURE, state, text, found.day)

    def diagnose(self, measure: TaskState) -> TaskState:
        """Return the state of the diagnosis."""
        found = self.diagnosis
        text, day = ("", "") if found is None else (sentence_of(found), found.day)
        if measure.state is TaskStatus.DONE and found is not None and self.is_current(found):
            state = TaskStatus.OPEN if conclusion_of(found) in _AGAIN else TaskStatus.DONE
            return TaskState(Task.DIAGNOSE, state, text, day)
        if measure.state is TaskStatus.DONE and self.is_met:
            return TaskState(Task.DIAGNOSE, TaskStatus.NOT_NEEDED, "the targets are met")
        if measure.state is TaskStatus.DONE and self.is_current(self.verification):
            return TaskState(
                Task.DIAGNOSE, TaskStatus.NOT_NEEDED, "the change was verified without it"
            )
        if found is None:
            return TaskState(Task.DIAGNOSE, TaskStatus.OPEN)
        text = "measured again since then"
        if self.is_current(found):
            text = "the measurement that it explains is invalid or not complete"
        return TaskState(Task.DIAGNOSE, TaskStatus.STALE, text, day)

    def change(self, path: InferencePath, measure: TaskState) -> TaskState:
        """Return the state of the description of the change."""
        found = self.verification
        described = path.change
        text = ": ".join(filter(None, (described.lever, described.description)))
        is_same = found is not None and not self.changed(found, ["change"])
        if measure.state is TaskStatus.DONE and is_same and not self.is_current(found):
            assert found is not None  # noqa: S101 - it is the same as one
            text = f"{text} was verified on {found.day}; the next change is needed"
            return TaskState(Task.CHANGE, TaskStatus.OPEN, text)
        if is_same and not described.lever:
            assert found is not None  # noqa: S101 - it is the same as one
            levers = listed([each["name"] for each in found.document["levers"]])
            return TaskState(Task.CHANGE, TaskStatus.DONE, f"{levers}, stated with latspan verify")
        if described.lever not in LEVERS:
            if self.is_met:
                return TaskState(Task.CHANGE, TaskStatus.NOT_NEEDED, "the targets are met")
            text = f"no lever '{described.lever}'" if described.lever else "lever is empty"
            return TaskState(Task.CHANGE, TaskStatus.OPEN, text)
        if not (described.apply or described.options or is_same):
            return TaskState(Task.CHANGE, TaskStatus.OPEN, f"{text}; apply and options are empty")
        # Only the verification has the system in the state of both sides, so that the check must
        # be described before it.
        if not is_same and may_hurt_quality(described.lever) and not path.quality.is_described:
            text = f"{described.lever} may worsen the quality of the answers; [quality] is empty"
            return TaskState(Task.CHANGE, TaskStatus.OPEN, text)
        return TaskState(Task.CHANGE, TaskStatus.DONE, text)

    def verify(self, path: InferencePath, measure: TaskState) -> TaskState:
        """Return the state of the verification."""
        found = self.verification
        if found is None:
            is_needed = not self.is_met or path.change.lever in LEVERS
            state = TaskStatus.OPEN if is_needed else TaskStatus.NOT_NEEDED
            return TaskState(Task.VERIFY, state, "" if is_needed else "the targets are met")
        text = verification_text(found)
        if measure.state is not TaskStatus.DONE or not self.is_current(found):
            return TaskState(
                Task.VERIFY, TaskStatus.STALE, f"{text}; of an earlier pass", found.day
            )
        if self.changed(found, ["change"]):
            return TaskState(Task.VERIFY, TaskStatus.STALE, f"{text}; another change", found.day)
        judgement = judgement_of(found)
        is_open = judgement is Judgement.NOT_INTERPRETABLE or (
            judgement is Judgement.INCONCLUSIVE and runs_to_decide(found) is not None
        )
        quality = path.quality
        has_answers = bool(quality.items and quality.before and quality.after)
        if (quality.command or has_answers) and quality_of(found) is None:
            text, is_open = f"{text}; the answers are not compared yet", True
        return TaskState(
            Task.VERIFY, TaskStatus.OPEN if is_open else TaskStatus.DONE, text, found.day
        )

    def document(self, measure: TaskState, verify: TaskState) -> TaskState:
        """Return the state of the write-up."""
        found = self.write_up
        if found is None:
            return TaskState(Task.DOCUMENT, TaskStatus.OPEN)
        lacks = len(found.document["missing"])
        text = f"{lacks} of its parts are missing" if lacks else "complete"
        newest = self.verification if verify.state is TaskStatus.DONE else None
        if measure.state is not TaskStatus.DONE or not (newest or self.is_met):
            return TaskState(Task.DOCUMENT, TaskStatus.STALE, "a task before it is open", found.day)
        if newest is not None and found.created < newest.created:
            return TaskState(
                Task.DOCUMENT, TaskStatus.STALE, "verified again since then", found.day
            )
        if self.changed(found, ["file"]):
            return TaskState(
                Task.DOCUMENT, TaskStatus.STALE, "the file changed since then", found.day
            )
        return TaskState(Task.DOCUMENT, TaskStatus.DONE, text, found.day)
