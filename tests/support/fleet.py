"""The telemetry of several processes, separated by instance as a backend does it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from support.otlp import attributes_of
from support.receivers import Receiver


@dataclass(slots=True)
class Instance:
    """
    One ``service.instance.id``.

    Args:
        pids: Every ``process.pid`` received with the id.
        spans: Number of spans received, by name, without segments.
        stages: Number of values in the histograms, by stage: the last state of each cumulative
            series.
    """

    pids: set[int] = field(default_factory=set[int])
    spans: Counter[str] = field(default_factory=Counter[str])
    stages: Counter[str] = field(default_factory=Counter[str])


def instances_of(receiver: Receiver) -> dict[str, Instance]:
    """Return what was received, by ``service.instance.id``."""
    instances: dict[str, Instance] = {}

    def instance(resource: dict[str, object]) -> Instance:
        found = instances.setdefault(str(resource["service.instance.id"]), Instance())
        pid = resource["process.pid"]
        assert isinstance(pid, int)
        found.pids.add(pid)
        return found

    for held in receiver.resource_spans:
        sender = instance(dict(attributes_of(held.resource.attributes)))
        spans = [span for scope in held.scope_spans for span in scope.spans]
        sender.spans.update(span.name for span in spans)
    for held in receiver.resource_metrics:
        sender = instance(dict(attributes_of(held.resource.attributes)))
        sender.stages = Counter()
        for metric in (metric for scope in held.scope_metrics for metric in scope.metrics):
            if metric.name == "latspan.segment.duration":
                for point in metric.exponential_histogram.data_points:
                    said = attributes_of(point.attributes)
                    sender.stages[str(said["latspan.segment"])] += point.count
    return instances


def counts_of(receiver: Receiver, stage: str) -> list[int]:
    """
    Return how often each instance went through ``stage``, in ascending order.

    Each instance must be one process, all processes must differ, and spans and histograms must
    agree.
    """
    instances = list(instances_of(receiver).values())
    pids = [instance.pids for instance in instances]
    assert [len(numbers) for numbers in pids] == [1] * len(instances)
    assert len({number for numbers in pids for number in numbers}) == len(instances)
    assert [instance.spans for instance in instances] == [each.stages for each in instances]
    return sorted(instance.stages[stage] for instance in instances)
