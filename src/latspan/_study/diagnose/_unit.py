"""
One unit of a recording: its goal metric, the facts on which rules depend, and its attributes.

The facts of a request are those of its last call, and its tokens are those of all its calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from latspan import semconv
from latspan._censoring import State
from latspan._metrics import FIRST_TOKENS
from latspan._recording import RequestRecord
from latspan._segments import Kind, Outcome, SegmentName, Source
from latspan._study.diagnose._goal import DURATION, Goal

__all__ = ["Child", "failed", "lag_ns", "numbers_of", "sequential", "texts_of", "value_of"]

_DETAIL_NUMBERS: Final = {
    "attempts": semconv.LATSPAN_ATTEMPT_COUNT,
    "reused": semconv.LATSPAN_CONNECTION_REUSED,
    "kv_usage": semconv.LATSPAN_KV_USAGE,
    "requests_waiting": semconv.LATSPAN_REQUESTS_WAITING,
    "requests_running": semconv.LATSPAN_REQUESTS_RUNNING,
    "cache_hit_ratio": semconv.LATSPAN_CACHE_HIT_RATIO,
    "gc_s": semconv.LATSPAN_HOST_GC_DURATION,
    "major_faults": semconv.LATSPAN_HOST_MAJOR_FAULTS,
    "cpu_throttled_s": semconv.LATSPAN_HOST_CPU_THROTTLED,
    "dispatch_lag_s": semconv.LATSPAN_LOAD_DISPATCH_LAG,
}
_METRIC_NUMBERS: Final = (
    "time_to_first_token",
    "time_to_first_visible_token",
    "time_per_output_token",
    "chunk_gap_max",
    "stall_count",
    "buffered",
)
_TOKENS: Final = {name: f"{name}_tokens" for name in ("input", "cached", "output", "reasoning")}
_TEXTS: Final = ("route", "model", "provider", "tenant", "traffic_class", "inference_path")
_DETAIL_TEXTS: Final = (semconv.GEN_AI_RESPONSE_MODEL, semconv.SERVER_ADDRESS)
_NOT_GROUPS: Final = (
    "latspan.",
    "gen_ai.",
    "openai.",
    "http.",
    "url.",
    "server.port",
    "error.type",
)
"""Prefixes of details that are not properties by which applications group their requests."""

_DECODE: Final[str] = SegmentName.DECODE.value

_STALL: Final = 5.0
"""Multiple of the median gap of a stream from which a gap is a stall."""


class Child(NamedTuple):
    """
    A call inside a request.

    Args:
        name: Name of its span.
        start_ns: Unix time of its start, in nanoseconds.
        end_ns: Unix time of its end, in nanoseconds.
        record: The record.
    """

    name: str
    start_ns: int
    end_ns: int
    record: RequestRecord


def lag_ns(record: RequestRecord) -> float:
    lag = record.details.get(semconv.LATSPAN_LOAD_DISPATCH_LAG)
    return lag * 1e9 if isinstance(lag, float | int) and lag > 0 else 0.0


def value_of(record: RequestRecord, goal: Goal) -> float | None:
    """Return the goal metric of a unit; ``None`` if it has none."""
    if goal.metric == DURATION:
        return None if record.outcome.failed else record.duration_ns
    metric = goal.metric
    if record.kind is Kind.REQUEST:
        # A request as a whole has only the time until its user sees something.
        metric = "time_to_first_visible_token"
    value = record.metrics.get(metric)
    return None if value is None else value.value


def failed(
    record: RequestRecord, inside: Sequence[Child], goal: Goal, value_ns: float | None
) -> bool:
    """
    Return whether a unit misses every limit of the goal.

    The user of a stream without a token waits for the first one forever.
    """
    return record.outcome.failed or (
        value_ns is None
        and goal.metric in FIRST_TOKENS
        and any(
            child.record.outcome is Outcome.COMPLETED
            and child.record.state("time_to_first_token") is State.NEVER
            for child in inside
        )
    )


def numbers_of(record: RequestRecord, inside: Sequence[Child]) -> Iterator[tuple[str, float]]:
    """Yield the facts of a unit; those of a request are those of its last call."""
    last = _last(record, inside)
    for name in _METRIC_NUMBERS:
        value = last.metrics.get(name)
        if value is not None:
            yield name, value.value
    for name, detail in _DETAIL_NUMBERS.items():
        value = last.details.get(detail, record.details.get(detail))
        if isinstance(value, float | int):
            yield name, value
    tokens = [child.record.tokens for child in inside]
    for name, fact in _TOKENS.items():
        known = [count for each in tokens if (count := getattr(each, name)) is not None]
        if known:
            yield fact, sum(known)
    # A gap that ended while the application held the stream, or its loop was blocked, is no
    # evidence of how the stream was generated.
    gaps = sorted(gap.value for gap in last.chunk_gaps if gap.source is Source.MEASURED)
    if len(gaps) > 1:
        yield "chunk_gap_median", gaps[len(gaps) // 2]
        yield "stalled", _stalled_ns(gaps)
    sent = last.marks_ns.get("sent")
    headers = last.marks_ns.get("headers")
    if sent is not None and headers is not None:
        yield "until_headers", headers - sent
    decode = [end - start for name, start, end, _ in last.segments if name == _DECODE]
    yield "decode_ns", sum(decode)


def _last(record: RequestRecord, inside: Sequence[Child]) -> RequestRecord:
    """Return the last call of a unit; the unit itself if it has none."""
    if len(inside) > 1:
        return max(inside, key=lambda child: child.start_ns).record
    return inside[0].record if inside else record


def _stalled_ns(gaps: Sequence[float]) -> float:
    """Return the time by which long gaps exceed the median, of gaps in ascending order."""
    median = gaps[len(gaps) // 2]
    total = 0.0
    for gap in reversed(gaps):
        if gap <= _STALL * median:
            break
        total += gap - median
    return total


def texts_of(record: RequestRecord, inside: Sequence[Child]) -> dict[str, str]:
    """
    Return the attributes by which units may be grouped.

    An application's own attribute replaces the one of the same name that latspan knows.
    """
    last = _last(record, inside)
    attributes = {**last.attributes, **record.attributes}
    texts = {name: attributes[name] for name in _TEXTS if name in attributes}
    for name in _DETAIL_TEXTS:
        value = last.details.get(name)
        if isinstance(value, str):
            port = last.details.get(semconv.SERVER_PORT)
            texts[name] = f"{value}:{port}" if name == semconv.SERVER_ADDRESS else value
    for name, value in {**last.details, **record.details}.items():
        is_text = isinstance(value, str | bool) and name not in _DETAIL_TEXTS
        if is_text and not name.startswith(_NOT_GROUPS):
            texts[name] = str(value)
    return texts


def sequential(inside: Sequence[Child]) -> int:
    """Return the largest number of calls of which each began after the previous one had ended."""
    count, free_at = 0, 0
    for child in sorted(inside, key=lambda child: child.end_ns):
        if child.start_ns >= free_at:
            count += 1
            free_at = child.end_ns
    return count
