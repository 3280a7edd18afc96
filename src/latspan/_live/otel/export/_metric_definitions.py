"""Definitions of the exported metrics: name, description, unit and buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from latspan import semconv
from latspan._model.units import MetricUnit


@dataclass(frozen=True, slots=True)
class Form:
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


def _conventions(name: str, description: str, unit: Literal["s", "{token}"] = "s") -> Form:
    return Form(name, description, unit, semconv.EXPLICIT_BOUNDS[name])


FORMS: Final[Mapping[str, Form]] = {
    "segment": Form(
        semconv.METRIC_SEGMENT_DURATION,
        "Time a request spent in one segment; a request's segments sum to its duration",
    ),
    "time_to_first_token": Form(
        semconv.METRIC_TIME_TO_FIRST_TOKEN,
        "From the start of a call to its first chunk that bears a token",
    ),
    "time_to_first_visible_token": Form(
        semconv.METRIC_TIME_TO_FIRST_VISIBLE_TOKEN,
        "From the start to the first token that is not reasoning",
    ),
    "time_per_output_token": Form(
        semconv.METRIC_TIME_PER_OUTPUT_TOKEN,
        "Time per output token after the first",
    ),
    "chunk_gap": Form(
        semconv.METRIC_CHUNK_GAP,
        "Between the arrivals of two successive chunks that bear tokens",
    ),
    "stall_duration": Form(
        semconv.METRIC_STALL_DURATION,
        "Time by which a stream's gaps exceeded the stall limit, summed over a request",
    ),
    "stall_ratio": Form(
        semconv.METRIC_STALL_RATIO,
        "Share of the time from the first token to the last that exceeded the stall limit",
        "1",
    ),
    "fluidity": Form(
        semconv.METRIC_FLUIDITY,
        "Share of the deadlines of a stream's tokens that were met; higher is better",
        "1",
    ),
    "buffer_needed": Form(
        semconv.METRIC_BUFFER_NEEDED,
        "Delay after the first visible token with which a reader never waits",
    ),
    "segment.at_least": Form(
        semconv.METRIC_SEGMENT_DURATION_AT_LEAST,
        "Time of the segment in which a request was given up or failed; also in the segments",
    ),
    "time_to_first_token.at_least": Form(
        semconv.METRIC_TIME_TO_FIRST_TOKEN_AT_LEAST,
        "Time that a call without a first token waited, until it was given up or failed",
    ),
    "time_to_first_visible_token.at_least": Form(
        semconv.METRIC_TIME_TO_FIRST_VISIBLE_TOKEN_AT_LEAST,
        "Time that was waited without a visible token, until the wait was given up or failed",
    ),
    "time_per_output_token.at_least": Form(
        semconv.METRIC_TIME_PER_OUTPUT_TOKEN_AT_LEAST,
        "Streams without a time per output token: 0 if given up, the whole time if failed",
    ),
    "chunk_gap.at_least": Form(
        semconv.METRIC_CHUNK_GAP_AT_LEAST,
        "Wait for the next token in which a stream was given up or failed",
    ),
    "stall_duration.at_least": Form(
        semconv.METRIC_STALL_DURATION_AT_LEAST,
        "Stalls of a stream up to the time at which it was given up or failed",
    ),
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
