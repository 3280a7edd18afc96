"""Which values of a finished request belong to which series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from latspan import semconv
from latspan.recording._record import RequestRecord
from latspan.recording._series import SEGMENT, SeriesKey, Subject
from latspan.segments import Source, totals
from latspan.tokens import TokenSource

__all__ = ["values_of"]


def values_of(record: RequestRecord) -> Iterator[tuple[SeriesKey, list[int]]]:
    """
    Yield each series that a record has values for, with the values.

    A record that says what it ``reports`` gives only those segments, its metrics and its
    duration: its chunks and tokens are counted by the calls inside it.

    Yields:
        The key, and nanoseconds for times or plain numbers for counts; at least one.
    """
    subject = Subject(
        record.kind.value, record.side.value, record.outcome.value, **record.attributes
    )
    reported = record.segments if record.reports is None else record.reports
    for total in totals(reported):
        yield SeriesKey(SEGMENT, subject, total.source.value, total.name), [total.duration_ns]
    # Whatever stands under that name, the duration is the one that the segments sum to.
    yield SeriesKey("duration", subject, Source.MEASURED.value), [record.duration_ns]
    for name, value in record.metrics.items():
        if name != "duration":
            yield SeriesKey(name, subject, value.source.value), [value.value]
    if record.reports is not None:
        return
    gaps: defaultdict[Source, list[int]] = defaultdict(list)
    for gap in record.chunk_gaps:
        gaps[gap.source].append(gap.value)
    for source, values in gaps.items():
        yield SeriesKey("chunk_gap", subject, source.value), values
    tokens = record.tokens
    for name, count in (
        ("input_tokens", tokens.input),
        ("cached_tokens", tokens.cached),
        ("output_tokens", tokens.output),
        ("reasoning_tokens", tokens.reasoning),
    ):
        if count is not None:
            yield SeriesKey(name, subject, tokens.source.value), [count]
    yield from _of_conventions(record)


def _of_conventions(record: RequestRecord) -> Iterator[tuple[SeriesKey, list[int]]]:
    """Yield what the GenAI conventions define, under their names and with their attributes."""
    said = record.convention
    if not said:
        return
    call = Subject(record.kind.value, **said)
    yield SeriesKey(semconv.METRIC_OPERATION_DURATION, call), [record.duration_ns]
    # On what came before a failure they say nothing about it.
    answer = call._replace(error_type=None)
    first = record.metrics.get("time_to_first_chunk")
    if first is not None:
        yield SeriesKey(semconv.METRIC_OPERATION_TIME_TO_FIRST_CHUNK, answer), [first.value]
    if record.output_chunk_gaps_ns:
        key = SeriesKey(semconv.METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK, answer)
        yield key, list(record.output_chunk_gaps_ns)
    for token_type, count in (("input", record.tokens.input), ("output", record.tokens.output)):
        if count is not None and record.tokens.source is TokenSource.PROVIDER:
            key = SeriesKey(semconv.METRIC_TOKEN_USAGE, answer._replace(token_type=token_type))
            yield key, [count]
