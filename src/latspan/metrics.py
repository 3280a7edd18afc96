"""
Every metric: its name, unit, formula, when it is undefined, and where the definition comes from.

The formulas stand here as functions of marks in nanoseconds; :mod:`latspan._timeline` says which
marks a call has and how certain each of them is.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from latspan import semconv
from latspan.errors import UnknownNameError
from latspan.segments import Source
from latspan.units import NS_PER_MS

__all__ = [
    "CONVENTION_METRICS",
    "DEFAULT_STALL_NS",
    "EVIDENCE_METRICS",
    "LATENCY_METRICS",
    "METRICS",
    "TOKEN_METRICS",
    "Metric",
    "MetricValue",
    "metric_named",
    "stalls",
    "time_per_output_token",
]

DEFAULT_STALL_NS: Final = 500 * NS_PER_MS
"""A gap between two chunks longer than this is a stall, unless configured otherwise."""


@dataclass(frozen=True, slots=True)
class Metric:
    """
    A number derived from the marks of one request.

    Args:
        name: The name in snapshots, files and reports.
        unit: ``s`` for times (held as integer nanoseconds inside), ``1`` for counts.
        formula: In terms of marks.
        undefined: When there is no such number.
        definition: Where the definition comes from.
        aliases: Other names people type.
        distribution: One request has many values, not one.
    """

    name: str
    unit: Literal["s", "1"]
    formula: str
    undefined: str
    definition: str
    aliases: tuple[str, ...] = ()
    distribution: bool = False


@dataclass(frozen=True, slots=True)
class MetricValue:
    """
    One value of a metric.

    Args:
        value: Nanoseconds for a metric of unit ``s``, a count for unit ``1``.
        source: How certain the marks it rests on are.
    """

    value: int
    source: Source = Source.MEASURED


def _by_name(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


LATENCY_METRICS: Final = _by_name(
    Metric(
        "duration",
        "s",
        "done - start",
        "never",
        "OpenTelemetry GenAI conventions, gen_ai.client.operation.duration",
    ),
    Metric(
        "time_to_first_chunk",
        "s",
        "first_chunk - start",
        "the call does not stream, or no chunk came",
        "OpenTelemetry GenAI conventions, gen_ai.response.time_to_first_chunk",
        ("ttfc",),
    ),
    Metric(
        "time_to_first_token",
        "s",
        "first_token - start; the first chunk that bears text, reasoning, tool-call arguments,"
        " a refusal or audio",
        "the call does not stream, or no token came",
        "latspan; the token-bearing rule of guidellm and genai-perf",
        ("ttft",),
    ),
    Metric(
        "time_to_first_visible_token",
        "s",
        "first_visible - start; as time_to_first_token, reasoning left out",
        "the call does not stream, or nothing visible came",
        "latspan; time to first output token in guidellm",
        ("ttfv",),
    ),
    Metric(
        "time_per_output_token",
        "s",
        "(last_token - first_token) / (n - 1), n the provider's output tokens without"
        " reasoning that it does not stream",
        "n < 2, no count from the provider, several choices at once, or all tokens in one chunk",
        "MLPerf inference rules; (E2E - TTFT) / (n - 1) where the stream ends with its tokens",
        ("tpot",),
    ),
    Metric(
        "chunk_gap",
        "s",
        "arrival of a token-bearing chunk less the arrival of the one before it",
        "fewer than two token-bearing chunks",
        "latspan; a chunk is not a token, so this is no inter-token latency",
        distribution=True,
    ),
    Metric(
        "chunk_gap_max",
        "s",
        "the longest chunk_gap of a request",
        "as chunk_gap",
        "latspan",
    ),
    Metric(
        "stall_count",
        "1",
        "how many chunk gaps are longer than the stall limit (500 ms by default)",
        "as chunk_gap",
        "latspan",
    ),
    Metric(
        "stall_duration",
        "s",
        "the sum over stalls of what exceeds the stall limit",
        "as chunk_gap",
        "latspan",
    ),
)
"""Where the time of a request went, and how smoothly it streamed."""

_USAGE: Final = "OpenTelemetry GenAI conventions, gen_ai.usage.*"

TOKEN_METRICS: Final = _by_name(
    Metric("input_tokens", "1", "prompt tokens, cached ones included", "nobody said", _USAGE),
    Metric(
        "cached_tokens",
        "1",
        "the part of input_tokens that came from the provider's prompt cache",
        "nobody said",
        _USAGE,
    ),
    Metric("output_tokens", "1", "generated tokens, reasoning included", "nobody said", _USAGE),
    Metric(
        "reasoning_tokens",
        "1",
        "the part of output_tokens that was reasoning",
        "nobody said",
        _USAGE,
    ),
)
"""How many tokens a request had; their source is a :class:`~latspan.tokens.TokenSource`."""

EVIDENCE_METRICS: Final = _by_name(
    Metric(
        "evidence_rejected",
        "1",
        "1 where the server's own timings do not fit what was measured",
        "they fit, or there were none",
        "latspan",
    ),
)
"""Whether servers can be believed; ask for the count, the values say nothing."""

_CONVENTIONS: Final = f"OpenTelemetry GenAI conventions v{semconv.GENAI_REVISION}"

CONVENTION_METRICS: Final = _by_name(
    Metric(
        semconv.METRIC_OPERATION_DURATION,
        "s",
        "done - start",
        "no inference call, or an instrumentation beside latspan emits it",
        _CONVENTIONS,
    ),
    Metric(
        semconv.METRIC_OPERATION_TIME_TO_FIRST_CHUNK,
        "s",
        "first_chunk - start",
        "as the duration; the call does not stream, or no chunk came",
        _CONVENTIONS,
    ),
    Metric(
        semconv.METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK,
        "s",
        "return of the read of a chunk, token-bearing or not, less the return of the read"
        " before it; the caller's own time between the two counts",
        "as the duration; fewer than two chunks",
        _CONVENTIONS,
        distribution=True,
    ),
    Metric(
        semconv.METRIC_TOKEN_USAGE,
        "1",
        f"input and output tokens, told apart by {semconv.GEN_AI_TOKEN_TYPE}",
        "as the duration; nobody said",
        _CONVENTIONS,
        distribution=True,
    ),
)
"""What the GenAI conventions define for a client, by the names that they are emitted under."""

METRICS: Final = {**LATENCY_METRICS, **TOKEN_METRICS, **EVIDENCE_METRICS, **CONVENTION_METRICS}
"""Every metric that a snapshot can be asked for."""

_BY_ANY_NAME: Final = {
    name: metric for metric in METRICS.values() for name in (metric.name, *metric.aliases)
}


def metric_named(name: str) -> Metric:
    """
    Return the metric of that name or alias.

    Raises:
        UnknownNameError: There is none; the hint names the nearest, or all of them.
    """
    try:
        return _BY_ANY_NAME[name]
    except KeyError:
        close = difflib.get_close_matches(name, _BY_ANY_NAME, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"one of {', '.join(METRICS)}"
        raise UnknownNameError(f"no metric '{name}'", hint=hint) from None


def time_per_output_token(generation_ns: int, output_tokens: int) -> int | None:
    """
    Return the time each token after the first took, in nanoseconds rounded to the nearest.

    Args:
        generation_ns: From the first token to the last.
        output_tokens: As the provider counted them, reasoning included.

    Returns:
        ``None`` where it is undefined: fewer than two tokens.
    """
    if output_tokens < 2:
        return None
    return round(generation_ns / (output_tokens - 1))


def stalls(gaps_ns: Iterable[int], limit_ns: int = DEFAULT_STALL_NS) -> tuple[int, int]:
    """
    Return how many gaps exceed ``limit_ns``, and by how many nanoseconds in all.

    Args:
        gaps_ns: Chunk gaps in nanoseconds.
        limit_ns: Longest gap that is no stall.
    """
    excesses = [gap - limit_ns for gap in gaps_ns if gap > limit_ns]
    return len(excesses), sum(excesses)
