"""Records of agent runs: requests of several steps, with the records of their calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._model.segments import Kind, Outcome
from latspan._model.timeline import Activity, scope_timeline
from latspan.testing import MetricValue, RequestRecord, Segment, TokenCounts


@dataclass(frozen=True, slots=True)
class Work:
    """
    A step of a run, or time of the application between two steps.

    Args:
        name: Name of the call or stage; empty for the application.
        ms: Time of each segment in ms; of a stage and of the application, that under its name.
        tokens: Number of tokens of the prompt of a call; ``None`` for a stage.
    """

    name: str
    ms: Mapping[str, float]
    tokens: int | None = None


def model(name: str = "chat m", *, tokens: int = 100, **ms: float) -> Work:
    """Return a call."""
    return Work(name, ms, tokens)


def tool(name: str, ms: float) -> Work:
    """Return a stage of the kind ``tool``."""
    return Work(name, {name: ms})


def thinking(ms: float) -> Work:
    """Return time of the application."""
    return Work("", {"": ms})


def records(runs: Sequence[Sequence[Work]]) -> list[RequestRecord]:
    """Return the records of runs, one per second, each after those of its calls."""
    return [record for number, run in enumerate(runs, 1) for record in _run(number, run)]


def _run(number: int, run: Sequence[Work]) -> Iterator[RequestRecord]:
    begin_ns = number * NS_PER_S
    at_ns = begin_ns
    root = Activity(Kind.REQUEST, "agent", begin_ns)
    for work in run:
        segments: list[Segment] = []
        end_ns = 0
        for name, ms in work.ms.items():
            segments.append(Segment(name, end_ns, end_ns + round(ms * NS_PER_MS)))
            end_ns = segments[-1].end_ns
        if work.name:
            kind = Kind.STAGE if work.tokens is None else Kind.CALL
            step = RequestRecord(
                name=work.name,
                kind=kind,
                outcome=Outcome.COMPLETED,
                start_epoch_ns=at_ns,
                duration_ns=end_ns,
                segments=tuple(segments),
                metrics={"duration": MetricValue(end_ns)},
                parent_id=number,
                root_id=number,
            )
            activity = Activity(kind, work.name, at_ns, at_ns + end_ns)
            if kind is Kind.CALL:
                activity.segments = step.segments
                step = replace(step, tokens=TokenCounts(input=work.tokens, output=10))
            else:
                step = replace(step, details={semconv.LATSPAN_STAGE_KIND: "tool"})
            root.children.append(activity)
            yield step
        at_ns += end_ns
    root.done_ns = at_ns
    scope = scope_timeline(root)
    names = (
        semconv.LATSPAN_APPLICATION_BEFORE,
        semconv.LATSPAN_APPLICATION_BETWEEN,
        semconv.LATSPAN_APPLICATION_AFTER,
    )
    yield RequestRecord(
        name="agent",
        kind=Kind.REQUEST,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=begin_ns,
        duration_ns=at_ns - begin_ns,
        segments=scope.timeline.segments,
        metrics=scope.timeline.metrics,
        scope_id=number,
        root_id=number,
        steps=scope.steps,
        segment_steps=scope.segment_steps,
        details={
            name: spent_ns / NS_PER_S
            for name, spent_ns in zip(names, scope.application_ns or (), strict=False)
        },
    )
