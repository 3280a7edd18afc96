"""
Judgement of one inference path of a sweep: its targets, and its drift.

Latency and inputs drift together: a prompt template grows, and prefill takes longer; a new model
gives longer answers, and decoding takes longer. A comparison of two states of a system refuses such
sides, because it must attribute the difference to one change. A sweep must detect that users wait
longer, whatever the reason. So a difference of the *inputs* (template, prompts, model, lengths,
cached share, parameters) is shown next to the latency, and does not prevent the judgement. A
difference of the *test* (load, machine, state of the cache, connections) does: two such numbers
were not measured in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from latspan._model.goals import LOAD_CONDITIONS, Target
from latspan._model.recording.folder import open_recording
from latspan._study.answer import Answer, ExitCode
from latspan._study.compare import (
    Comparison,
    Difference,
    Judgement,
    Question,
    Run,
    Weight,
    compare,
    differences,
    mean_of,
    question,
    run_of,
)
from latspan._study.measurement import summarize
from latspan._study.stats import TargetVerdict, Verdict, target_verdict
from latspan.errors import LatspanError
from latspan.histogram import values_needed

_OF_THE_TEST: Final = frozenset({"kind", "load", "machine", *LOAD_CONDITIONS})
"""Conditions that are not inputs: two sides that differ in one were measured in different ways."""

_TEMPLATE: Final = "template"


class SweepAnswer(Answer):
    """What a sweep concludes about an inference path."""

    NO_DRIFT = "no_drift", ExitCode.GOOD
    DRIFT = "drift", ExitCode.MISSED
    """A target is missed, or latency is worse than in the baseline or in the previous sweep."""
    INCONCLUSIVE = "inconclusive", ExitCode.INCONCLUSIVE
    """More requests or runs are needed."""
    NOT_INTERPRETABLE = "not_interpretable", ExitCode.NOT_INTERPRETABLE
    """There is no valid measurement, or it was not measured as the baseline was."""


@dataclass(frozen=True, slots=True)
class SweptTarget:
    """
    A target, and what all runs of the sweep prove about it.

    Args:
        target: The target.
        verdict: The verdict; ``None`` if no request has a value of the metric.
    """

    target: Target
    verdict: TargetVerdict | None


@dataclass(frozen=True, slots=True)
class Against:
    """
    Comparison of a sweep with an earlier state.

    Args:
        comparison: The comparison; ``None`` if there cannot be one.
        runs: Runs of the earlier state.
        since: Time of the earlier state; ``None`` if it is not known.
        reason: Why there is no comparison.
    """

    comparison: Comparison | None
    runs: tuple[Run, ...]
    since: datetime | None = None
    reason: str = ""

    @property
    def judgement(self) -> Judgement:
        """What it concludes."""
        if self.comparison is None:
            return Judgement.NOT_INTERPRETABLE
        return self.comparison.judgement

    @property
    def sentence(self) -> str:
        """Its conclusion in words."""
        return self.reason if self.comparison is None else self.comparison.sentence

    @property
    def inputs(self) -> tuple[Difference, ...]:
        """Inputs that differ."""
        if self.comparison is None:
            return ()
        return tuple(
            each
            for each in self.comparison.differences
            if each.accepted and each.weight is Weight.EXPLAINS
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSweep:
    """
    One inference path of a sweep.

    Args:
        name: Its name.
        runs: Its valid runs.
        invalid: Why the other runs do not count, one sentence each.
        targets: Its targets.
        goal: Percentile that is compared; ``None`` without a valid run.
        value_ns: Mean of this percentile over the runs, in nanoseconds; ``None`` if a run has too
            few values.
        baseline: Comparison with the pinned baseline; ``None`` if none is pinned.
        previous: Comparison with the previous sweep; ``None`` for the first one.
        seconds_per_run: How long one run took, in seconds; ``None`` if none ended.
    """

    name: str
    runs: tuple[Run, ...]
    invalid: tuple[str, ...] = ()
    targets: tuple[SweptTarget, ...] = ()
    goal: Question | None = None
    value_ns: float | None = None
    baseline: Against | None = None
    previous: Against | None = None
    seconds_per_run: float | None = None

    @property
    def reference(self) -> Against | None:
        """The comparison that counts: with the baseline, or with the previous sweep if none."""
        return self.baseline or self.previous

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Differences to the earlier states that it is compared with."""
        found = (each.comparison for each in (self.baseline, self.previous) if each is not None)
        return tuple(each for one in found if one is not None for each in one.differences)

    @property
    def verdict(self) -> Verdict | None:
        """Verdict on all targets together; ``None`` without a valid run."""
        if not self.runs:
            return None
        verdicts = {
            Verdict.UNDECIDED if each.verdict is None else each.verdict.verdict
            for each in self.targets
        }
        order = (Verdict.MISSED, Verdict.UNDECIDED, Verdict.MET)
        return next((each for each in order if each in verdicts), None)

    @property
    def finding(self) -> SweepAnswer:
        """What the sweep concludes about it."""
        if not self.runs:
            return SweepAnswer.NOT_INTERPRETABLE
        compared = [each.judgement for each in (self.baseline, self.previous) if each is not None]
        if self.verdict is Verdict.MISSED or Judgement.WORSE in compared:
            return SweepAnswer.DRIFT
        reference = self.reference
        judgement = None if reference is None else reference.judgement
        if judgement is Judgement.NOT_INTERPRETABLE:
            return SweepAnswer.NOT_INTERPRETABLE
        if self.verdict is Verdict.UNDECIDED or judgement is Judgement.INCONCLUSIVE:
            return SweepAnswer.INCONCLUSIVE
        return SweepAnswer.NO_DRIFT

    @property
    def sentence(self) -> str:
        """Why, in one or two sentences."""
        if not self.runs:
            return f"{self.invalid[0] if self.invalid else 'nothing was measured'}."
        parts = [
            f"The target is {each.verdict.verdict}: {each.target.label}."
            for each in self.targets
            if each.verdict is not None and each.verdict.verdict is Verdict.MISSED
        ]
        reference = self.reference
        if reference is not None:
            name = "previous sweep" if self.baseline is None else "baseline"
            parts.append(f"Against the {name}: {reference.sentence}")
            if (
                self.previous not in (None, reference)
                and self.previous.judgement is Judgement.WORSE
                and reference.judgement is not Judgement.WORSE
            ):
                parts.append(f"Against the previous sweep: {self.previous.sentence}")
        return " ".join(parts) or "There is nothing to compare with yet."


def judge(
    name: str,
    folders: Sequence[Path],
    *,
    invalid: Sequence[str] = (),
    pinned: Sequence[Run] = (),
    previous: Sequence[Run] = (),
    since: datetime | None = None,
    template: str = "",
    changed: Collection[str] = (),
    seconds_per_run: float | None = None,
) -> PathSweep:
    """
    Return what the runs of an inference path show.

    Args:
        name: Name of the inference path.
        folders: Recordings of its runs. Invalid ones are left out, and reported.
        invalid: Why further runs have no recording, one sentence each.
        pinned: Runs of its pinned baseline.
        previous: Runs of the previous sweep.
        since: Time of the previous sweep.
        template: Fingerprint of its prompt template; empty if it has none.
        changed: Further names of differences that do not prevent a comparison.
        seconds_per_run: How long one run took, in seconds.

    Raises:
        LatspanError: A recording cannot be read.
    """
    every = [run_of(open_recording(folder)) for folder in folders]
    valid = [
        (folder, _with_template(run, template))
        for folder, run in zip(folders, every, strict=True)
        if not run.invalid
    ]
    left_out = [f"{run.name}: {run.invalid[0]}" for run in every if run.invalid]
    runs = tuple(run for _, run in valid)
    found = PathSweep(
        name=name,
        runs=runs,
        invalid=(*left_out, *invalid),
        seconds_per_run=seconds_per_run,
    )
    if not runs:
        return found
    asked = question(None, runs, runs)
    return replace(
        found,
        targets=_targets([folder for folder, _ in valid]),
        goal=asked,
        value_ns=_value(runs, asked),
        baseline=_against(pinned, runs, asked, changed) if pinned else None,
        previous=_against(previous, runs, asked, changed, since) if previous else None,
    )


def _with_template(run: Run, template: str) -> Run:
    if not template:
        return run
    return replace(run, conditions={**run.conditions, _TEMPLATE: template})


def _without_template(run: Run) -> Run:
    conditions = {name: value for name, value in run.conditions.items() if name != _TEMPLATE}
    return replace(run, conditions=conditions)


def _targets(folders: Sequence[Path]) -> tuple[SweptTarget, ...]:
    """
    Return the verdicts on the requests of all runs together.

    The numbers of a sampled run are effective ones, which may be added up.
    """
    found: dict[str, tuple[Target, list[TargetVerdict]]] = {}
    for folder in folders:
        for result in summarize(open_recording(folder)).steps[-1].targets:
            _, verdicts = found.setdefault(result.target.label, (result.target, []))
            if result.verdict is not None:
                verdicts.append(result.verdict)
    return tuple(
        SweptTarget(
            target,
            target_verdict(
                sum(each.requests for each in verdicts),
                sum(each.misses for each in verdicts),
                target.percentile,
                undecided=sum(each.undecided for each in verdicts),
            )
            if verdicts
            else None,
        )
        for target, verdicts in found.values()
    )


def _value(runs: Sequence[Run], asked: Question) -> float | None:
    samples = [run.samples[asked.metric] for run in runs if asked.metric in run.samples]
    least = values_needed(asked.percentile)
    if not samples or any(each.size < least for each in samples):
        return None
    low, high = (
        mean_of([each.quantile(asked.percentile) for each in side])
        for side in (samples, [each.high for each in samples])
    )
    return low if low == high else None


def _against(
    before: Sequence[Run],
    after: Sequence[Run],
    asked: Question,
    changed: Collection[str],
    since: datetime | None = None,
) -> Against:
    if not any(_TEMPLATE in run.conditions for run in before):
        # Baselines of other commands do not have it, which is not a change.
        after = [_without_template(run) for run in after]
    accept = [
        each.name
        for each in differences(before, after)
        if each.weight is Weight.EXPLAINS and (each.is_named(changed) or not _is_of_the_test(each))
    ]
    # Its limit was judged above, on the requests of all targets.
    asked = replace(asked, limit_ns=None)
    try:
        found = compare(before, after, asked, accept=accept, exactly=True)
    except LatspanError as error:
        return Against(None, tuple(before), since, f"Not comparable: {error.message}.")
    return Against(found, tuple(before), since)


def _is_of_the_test(difference: Difference) -> bool:
    return difference.name in _OF_THE_TEST or difference.is_within_a_side
