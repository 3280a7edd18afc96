"""Definitions of the exported metrics: name, description, unit and buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from latspan import semconv
from latspan._model.censoring import AT_LEAST
from latspan._model.metrics import LATENCY_METRICS, Exported
from latspan._model.units import MetricUnit


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """
    Definition of one exported metric.

    Args:
        name: Its exported name.
        description: Its exported description, one sentence.
        unit: ``s``, ``{token}``, or ``1`` for a ratio.
        bounds: Bucket boundaries that a convention recommends; ``None`` for an exponential
            histogram.
    """

    name: str
    description: str
    unit: Literal["s", "{token}", "1"] = "s"
    bounds: tuple[float, ...] | None = None

    @property
    def held_as(self) -> MetricUnit:
        """Unit in which the recorder holds its values."""
        return _HELD_AS[self.unit]


_HELD_AS: Final[Mapping[str, MetricUnit]] = {"s": "s", "{token}": "1", "1": "ratio"}
_EXPORTED_UNITS: Final[Mapping[MetricUnit, Literal["s", "1"]]] = {"s": "s", "ratio": "1"}


def _conventions(
    name: str, description: str, unit: Literal["s", "{token}"] = "s"
) -> MetricDefinition:
    return MetricDefinition(name, description, unit, semconv.EXPLICIT_BOUNDS[name])


_EXPORTED: Final[dict[str, tuple[Exported, Literal["s", "1"]]]] = {
    name: (metric.exported, _EXPORTED_UNITS[metric.unit])
    for name, metric in LATENCY_METRICS.items()
    if metric.exported is not None
}
_VALUES: Final = {
    name: MetricDefinition(exported.name, exported.description, unit)
    for name, (exported, unit) in _EXPORTED.items()
}
_LOWER_BOUNDS: Final = {
    name + AT_LEAST: MetricDefinition(exported.at_least, exported.at_least_description, unit)
    for name, (exported, unit) in _EXPORTED.items()
    if exported.at_least
}

FORMS: Final[Mapping[str, MetricDefinition]] = {
    "segment": MetricDefinition(
        semconv.METRIC_SEGMENT_DURATION,
        "Time a request spent in one segment; a request's segments sum to its duration",
    ),
    **_VALUES,
    "segment" + AT_LEAST: MetricDefinition(
        semconv.METRIC_SEGMENT_DURATION_AT_LEAST,
        "Time of the segment in which a request was given up or failed; also in the segments",
    ),
    **_LOWER_BOUNDS,
    semconv.METRIC_OPERATION_DURATION: _conventions(
        semconv.METRIC_OPERATION_DURATION, "GenAI operation duration."
    ),
    semconv.METRIC_OPERATION_TIME_TO_FIRST_CHUNK: _conventions(
        semconv.METRIC_OPERATION_TIME_TO_FIRST_CHUNK,
        "Time to receive the first chunk, measured from when the client issues the request.",
    ),
    semconv.METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK: _conventions(
        semconv.METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK,
        "Time per output chunk, recorded for each chunk received after the first one.",
    ),
    semconv.METRIC_TOKEN_USAGE: _conventions(
        semconv.METRIC_TOKEN_USAGE, "Number of input and output tokens used.", "{token}"
    ),
    semconv.METRIC_SERVER_REQUEST_DURATION: _conventions(
        semconv.METRIC_SERVER_REQUEST_DURATION,
        "Generative AI server request duration such as time-to-last byte or last output token.",
    ),
    semconv.METRIC_SERVER_TIME_TO_FIRST_TOKEN: _conventions(
        semconv.METRIC_SERVER_TIME_TO_FIRST_TOKEN,
        "Time to generate first token for successful responses.",
    ),
    semconv.METRIC_SERVER_TIME_PER_OUTPUT_TOKEN: _conventions(
        semconv.METRIC_SERVER_TIME_PER_OUTPUT_TOKEN,
        "Time per output token generated after the first token for successful responses.",
    ),
}
"""Definitions by the metric's internal name, in the order of export."""
