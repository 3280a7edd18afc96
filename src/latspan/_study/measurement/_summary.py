"""Summary of a load test: what was sent, how it ended, how long it took, and what that proves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latspan._model.goals import Target
from latspan._model.metrics import (
    DURATION,
    FIRST_TOKENS,
    FROM_START,
    SUMMARISED,
)
from latspan._model.recording.folder import LoadTest, Recording, StepAccount, load_test_of
from latspan._model.segments import Kind, Outcome
from latspan._study.measurement._collected import StepRequests, observed_conditions
from latspan._study.measurement._latency import Latency, Origin
from latspan._study.measurement._validity import CachedInput, Caveat, caveats
from latspan._study.stats import TargetVerdict
from latspan._study.table import Table, read_table
from latspan.errors import ConfigError, RecordingError


@dataclass(frozen=True, slots=True)
class TargetResult:
    """
    What a step proves about a target.

    Args:
        target: The target.
        verdict: What is proven; ``None`` if no request has a value of the metric.
        origin: Instant from which the metric was measured.
    """

    target: Target
    verdict: TargetVerdict | None
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """
    One step of a measurement: one level of load.

    Args:
        load: What defines the load, by name.
        intended: Number of requests that were to be measured.
        unsent: Number of them that were not sent, because the measurement was cut short.
        cut: Number of them that the end of the measurement cancelled.
        outcomes: Number of measured requests by outcome.
        errors: Number of failed ones by ``error.type``.
        latencies: Values by metric and origin.
        offered_per_s: Rate of the schedule; ``None`` in a closed loop.
        reached_per_s: Rate at which requests were sent; ``None`` in a closed loop.
        completed_per_s: Rate at which requests completed.
        output_tokens_per_s: Output tokens of completed requests per second; ``None`` if unknown.
        cached: Cached input in the first and the last third; ``None`` if unknown.
        generator: Lag and load of the generator, in seconds and fractions.
        caveats: What a reader must know.
        targets: Results of the targets.
    """

    load: Mapping[str, Any]
    intended: int
    unsent: int
    cut: int
    outcomes: Mapping[Outcome, int]
    errors: Mapping[str, int]
    latencies: Mapping[tuple[str, Origin], Latency]
    offered_per_s: float | None
    reached_per_s: float | None
    completed_per_s: float | None
    output_tokens_per_s: float | None
    cached: CachedInput | None
    generator: Mapping[str, Any]
    caveats: tuple[Caveat, ...]
    targets: tuple[TargetResult, ...]

    @property
    def is_open(self) -> bool:
        """Whether requests were sent on a schedule, whatever happened to earlier ones."""
        return "concurrency" not in self.load

    @property
    def measured(self) -> int:
        """Number of measured requests, those that were given up included."""
        return sum(self.outcomes.values())

    @property
    def completed(self) -> int:
        """Number of measured requests that completed."""
        return self.outcomes.get(Outcome.COMPLETED, 0)

    @property
    def is_valid(self) -> bool:
        """Whether no caveat invalidates the step."""
        return not any(each.invalidates for each in self.caveats)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """
    Summary of a load test.

    Args:
        name: Inference path or target.
        kind: Kind of the measured unit.
        steps: Its steps, in the order in which they were measured.
        interrupted: Whether it was interrupted.
        ended: Whether the measuring process ended it normally.
        percentile: Highest percentile to show.
        conditions: Conditions of the recording.
        observed: Conditions that only the responses show: names of the models that answered,
            cached fraction of the input, and fraction of the calls that reused a connection.
        notes: What is missing in the recording.
    """

    name: str
    kind: Kind
    steps: tuple[StepSummary, ...]
    interrupted: bool
    ended: bool
    percentile: float
    conditions: Mapping[str, Any]
    observed: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def is_valid(self) -> bool:
        """Whether every step is valid, and there is one."""
        return self.ended and bool(self.steps) and all(step.is_valid for step in self.steps)


def refuse_step(recording: Recording, step: int | None) -> None:
    """
    Refuse a step for a recording that has none.

    Raises:
        ConfigError: The recording is not that of a load test, and a step is given.
    """
    if step is not None and load_test_of(recording.manifest) is None:
        raise ConfigError(
            f"{recording.folder} is not the recording of a load test, so it has no step {step}",
            hint="omit --step",
        )


def summarize(recording: Recording, table: Table | None = None) -> Measurement:
    """
    Return the summary of a load test.

    Args:
        recording: Recording of ``latspan measure``.
        table: Its units, if they have been read; they are used if they are of the measured kind.

    Raises:
        RecordingError: The manifest is damaged, or a file of the recording cannot be read.
    """
    load_test = load_test_of(recording.manifest) or LoadTest()
    # Other load tools account for less.
    is_ours = recording.manifest.get("source") == "measure"
    if is_ours and not all(step.is_complete for step in load_test.steps):
        raise RecordingError(
            f"{recording.folder} has a step whose account is incomplete",
            hint="measure again: the manifest of this recording is damaged",
        )
    kind = measured_kind(recording)
    if table is None or table.kind is not kind:
        table = read_table(recording, (), kind=kind)
    targets = load_test.targets
    return Measurement(
        name=load_test.name,
        kind=kind,
        steps=tuple(
            _step(
                step,
                StepRequests.of(table, number),
                kind,
                targets,
                is_limited=recording.conditions.get("max_in_flight") is not None,
            )
            for number, step in enumerate(load_test.steps)
        ),
        interrupted=load_test.interrupted,
        ended=bool(load_test.ended),
        percentile=load_test.percentile,
        conditions=recording.conditions,
        observed=observed_conditions(table),
        notes=recording.notes,
    )


def measured_kind(recording: Recording) -> Kind:
    """Return the kind of the unit that a load test measured."""
    load_test = load_test_of(recording.manifest)
    return Kind.CALL if load_test is None or load_test.kind is None else load_test.kind


def _step(
    step: StepAccount,
    requests: StepRequests,
    kind: Kind,
    targets: Sequence[Target],
    *,
    is_limited: bool,
) -> StepSummary:
    outcomes = requests.outcomes()
    completed = outcomes[Outcome.COMPLETED]
    latencies: dict[tuple[str, Origin], Latency] = {}
    without_token = 0
    for metric in dict.fromkeys((*SUMMARISED[kind], *(target.metric for target in targets))):
        for origin in _origins(metric, is_open=step.is_open):
            latency = requests.latency(metric, origin)
            has_values = bool(len(latency.values_ns))
            # If requests completed without a value, the metric is not defined for them.
            if has_values or not completed:
                latencies[metric, origin] = latency
            if has_values and metric in FIRST_TOKENS:
                empty = latency.is_completed & np.isposinf(latency.low_ns)
                without_token = max(without_token, int(empty.sum()))
    cached = requests.cached_input()
    elapsed_s, output_tokens = requests.elapsed_s, requests.output_tokens
    return StepSummary(
        load=step.load,
        intended=step.intended,
        unsent=step.unsent,
        cut=len(step.cut),
        outcomes=outcomes,
        errors=dict(requests.errors().most_common()),
        latencies=latencies,
        offered_per_s=step.offered_per_s,
        reached_per_s=step.reached_per_s,
        completed_per_s=completed / elapsed_s if elapsed_s else None,
        output_tokens_per_s=output_tokens / elapsed_s if elapsed_s and output_tokens else None,
        cached=cached,
        generator=step.generator,
        caveats=tuple(
            caveats(
                step,
                is_limited=is_limited,
                limits_ns=[target.limit_ns for target in targets],
                measured_ns=_shortest(latencies, targets),
                cached=cached,
                # A closed loop keeps its number in flight by itself.
                in_flight=requests.in_flight() if step.is_open else None,
                without_token=without_token,
            )
        ),
        targets=tuple(_results(targets, latencies)),
    )


def _shortest(latencies: Mapping[tuple[str, Origin], Latency], targets: Sequence[Target]) -> float:
    """
    Return the shortest median of what is measured, in nanoseconds; 0 if nothing is.

    That is the metrics of the targets; without targets, the wait for the first token and the
    duration.
    """
    metrics = {target.metric for target in targets} or {*FIRST_TOKENS, DURATION}
    values = [each.values_ns for (metric, _), each in latencies.items() if metric in metrics]
    return min((float(np.median(each)) for each in values if len(each)), default=0.0)


def _origins(metric: str, *, is_open: bool) -> Iterator[Origin]:
    if is_open and metric in FROM_START:
        yield Origin.SCHEDULE
    yield Origin.START


def _results(
    targets: Sequence[Target], latencies: Mapping[tuple[str, Origin], Latency]
) -> Iterator[TargetResult]:
    for target in targets:
        origin = Origin.SCHEDULE if (target.metric, Origin.SCHEDULE) in latencies else Origin.START
        latency = latencies.get((target.metric, origin))
        verdict = None
        if latency is not None and latency.count:
            verdict = latency.verdict(target.limit_ns, target.percentile)
        yield TargetResult(target, verdict, origin)
