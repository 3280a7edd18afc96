"""Steps of requests by name: how many, how long, and their share of the slow requests' time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from latspan import semconv
from latspan._model.recording import RequestRecord, Snapshot
from latspan._model.segments import Kind
from latspan._study.render.group import Group
from latspan._study.render.slow import slowest_tenth
from latspan.histogram import Histogram, values_needed


@dataclass(slots=True)
class NamedSteps:
    """
    Steps with one name, of some requests.

    Args:
        name: Their name.
        kind: ``call``, ``http``, ``stage``, or the kind of the stage, for example ``tool``.
        lengths: Durations in nanoseconds of those whose times are known.
        numbers: Number of such steps in each request that has some.
        share: Share of the time of the slowest tenth of the requests, in [0, 1]; ``None`` if that
            time is zero.
    """

    name: str
    kind: str
    lengths: Histogram = field(default_factory=Histogram)
    numbers: list[int] = field(default_factory=list[int])
    share: float | None = None

    @property
    def total(self) -> int:
        """Number of the steps."""
        return sum(self.numbers)

    @property
    def per_request(self) -> str:
        """Number of the steps in a request that has some, for example ``1 to 3``."""
        fewest, most = min(self.numbers), max(self.numbers)
        return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"

    def percentile_ns(self, percentile: float) -> int | None:
        """Return a percentile of the lengths; ``None`` if there are too few of them."""
        if self.lengths.count < values_needed(percentile):
            return None
        return self.lengths.value_at_percentile(percentile)


def stage_kinds(snapshot: Snapshot) -> dict[str, str]:
    """Return the kind of each stage that has one, by the stage's name."""
    return {
        record.name: str(record.details[semconv.LATSPAN_STAGE_KIND])
        for record in snapshot.records
        if record.kind is Kind.STAGE and semconv.LATSPAN_STAGE_KIND in record.details
    }


def steps_by_name(group: Group, kinds: Mapping[str, str]) -> tuple[NamedSteps, ...]:
    """
    Return the steps of a group's requests by name, in the order in which they first occur.

    Args:
        group: Requests, with their records.
        kinds: Kind of each stage by its name.
    """
    found: dict[tuple[Kind, str], NamedSteps] = {}
    for record in group.records:
        numbers: Counter[tuple[Kind, str]] = Counter()
        for step in record.steps:
            key = step.kind, step.name
            if key not in found:
                kind = kinds.get(step.name) if step.kind is Kind.STAGE else None
                found[key] = NamedSteps(step.name, kind or step.kind.value)
            numbers[key] += step.merged
            if step.end_ns is not None and step.merged == 1:
                found[key].lengths.record(step.end_ns - step.start_ns)
        for key, number in numbers.items():
            found[key].numbers.append(number)
    slow = slowest_tenth(group.records).slow
    whole_ns = sum(record.duration_ns for record in slow)
    if whole_ns:
        waited_ns = _waited_ns(slow)
        for key, steps in found.items():
            steps.share = waited_ns[key] / whole_ns
    return tuple(found.values())


def _waited_ns(records: Sequence[RequestRecord]) -> Counter[tuple[Kind, str]]:
    """Return the time that requests waited in the steps of each kind and name."""
    waited_ns: Counter[tuple[Kind, str]] = Counter()
    for record in records:
        for segment, number in zip(record.segments, record.segment_steps, strict=False):
            if number:
                step = record.steps[number - 1]
                waited_ns[step.kind, step.name] += segment.duration_ns
    return waited_ns


def have_steps(group: Group) -> bool:
    """Return whether a request of a group has several steps, so that a table of them helps."""
    return any(sum(step.merged for step in record.steps) > 1 for record in group.records)
