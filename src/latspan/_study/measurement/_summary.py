"""Summary of a load test: what was sent, how it ended, how long it took, and what that proves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from latspan._metrics import FIRST_TOKENS, OF_REQUESTS
from latspan._recording import RequestRecord
from latspan._recording.folder import Recording
from latspan._segments import Kind, Outcome
from latspan._study.measurement._collected import CollectedStep, StepCollector
from latspan._study.measurement._latency import Latency, Origin
from latspan._study.measurement._validity import CachedInput, Caveat, caveats
from latspan._study.stats import TargetVerdict, target_verdict
from latspan._targets import Target
from latspan.errors import RecordingError

__all__ = ["Measurement", "StepSummary", "Summing", "TargetResult", "summarize"]

_SHOWN: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.CALL: ("duration", "time_to_first_token", "time_per_output_token"),
    Kind.REQUEST: OF_REQUESTS,
}
_RATES: Final = frozenset({"time_per_output_token"})
"""Metrics that do not begin with the request, so they exclude the wait to be sent."""


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
        outcomes: Number of the others by outcome.
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
        """Number of measured requests that ended by themselves."""
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


class Summing:
    """
    Summary of a load test whose records are read for another purpose too.

    Args:
        recording: Recording of ``latspan measure``.

    Raises:
        RecordingError: The manifest is damaged.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._about: Mapping[str, Any] = recording.manifest.get("measurement", {})
        self._accounts: Sequence[Mapping[str, Any]] = self._about.get("steps", ())
        # Other load tools account for less.
        is_ours = recording.manifest.get("source") == "measure"
        if is_ours and any(_NEEDED - account.keys() for account in self._accounts):
            raise RecordingError(
                f"{recording.folder} has a step without {', '.join(sorted(_NEEDED))}",
                hint="measure again: the manifest of this recording is damaged",
            )
        self._collector = StepCollector(recording)

    @property
    def kind(self) -> Kind:
        """Kind of the measured unit."""
        return self._collector.kind

    def add(self, record: RequestRecord) -> None:
        """Add the next record; records of other kinds are ignored."""
        self._collector.add(record)

    def measurement(self) -> Measurement:
        """Return the summary of the records that were added."""
        about, collector = self._about, self._collector
        targets = tuple(
            Target(metric=each["metric"], percentile=each["percentile"], limit_ns=each["limit_ns"])
            for each in about.get("targets", ())
        )
        return Measurement(
            name=about.get("name", ""),
            kind=collector.kind,
            steps=tuple(
                _step(
                    {**account, "max_in_flight": about.get("max_in_flight")},
                    collector.steps[number],
                    collector.kind,
                    targets,
                )
                for number, account in enumerate(self._accounts)
            ),
            interrupted=bool(about.get("interrupted")),
            ended=bool(about.get("ended")),
            percentile=about.get("percentile", 95),
            conditions=self._recording.conditions,
            observed=collector.observed(),
            notes=self._recording.notes,
        )


def summarize(recording: Recording) -> Measurement:
    """
    Return the summary of a load test.

    Args:
        recording: Recording of ``latspan measure``.

    Raises:
        RecordingError: The manifest is damaged, or a file of the recording cannot be read.
    """
    summing = Summing(recording)
    for record in recording.records(summing.kind):
        summing.add(record)
    return summing.measurement()


_NEEDED: Final = frozenset({"load", "intended", "unsent", "generator"})
"""Fields of every step."""


def _step(
    account: Mapping[str, Any], collected: CollectedStep, kind: Kind, targets: Sequence[Target]
) -> StepSummary:
    completed = collected.outcomes[Outcome.COMPLETED]
    failed = sum(collected.outcomes.values()) - completed
    is_open = "concurrency" not in account.get("load", {})
    latencies: dict[tuple[str, Origin], Latency] = {}
    without_token = 0
    for metric in dict.fromkeys((*_SHOWN[kind], *(target.metric for target in targets))):
        # A response without a token never gives its user a first one.
        known = collected.count(metric)
        empty = completed - known if known and metric in FIRST_TOKENS else 0
        without_token = max(without_token, empty)
        for origin in _origins(metric, is_open=is_open):
            values = collected.values_ns(metric, from_schedule=origin is Origin.SCHEDULE)
            latency = Latency.of(metric, origin, values, failed + empty)
            # If requests completed without a value, the metric is not defined for them.
            if latency.values_ns or not completed:
                latencies[metric, origin] = latency
    cached = collected.cached_input()
    elapsed_s = collected.elapsed_s()
    return StepSummary(
        load=account.get("load", {}),
        intended=account.get("intended", 0),
        unsent=account.get("unsent", 0),
        cut=len(account.get("cut", ())),
        outcomes=dict(collected.outcomes),
        errors=dict(collected.errors.most_common()),
        latencies=latencies,
        offered_per_s=account.get("offered_per_s"),
        reached_per_s=account.get("reached_per_s"),
        completed_per_s=completed / elapsed_s if elapsed_s else None,
        output_tokens_per_s=(
            collected.output_tokens / elapsed_s if elapsed_s and collected.output_tokens else None
        ),
        cached=cached,
        generator=account.get("generator", {}),
        caveats=tuple(
            caveats(
                account,
                limits_ns=[target.limit_ns for target in targets],
                cached=cached,
                # A closed loop keeps its number in flight by itself.
                in_flight=collected.in_flight() if is_open else None,
                without_token=without_token,
            )
        ),
        targets=tuple(_results(targets, latencies)),
    )


def _origins(metric: str, *, is_open: bool) -> Iterator[Origin]:
    if is_open and metric not in _RATES:
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
            misses = latency.misses(target.limit_ns)
            verdict = target_verdict(latency.count, misses, target.percentile)
        yield TargetResult(target, verdict, origin)
