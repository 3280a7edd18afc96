"""Which values of a finished request belong to which series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from latspan import semconv
from latspan.recording._record import RequestRecord
from latspan.recording._series import SEGMENT, Subject
from latspan.segments import Source, totals
from latspan.tokens import TokenSource

__all__ = ["Name", "values_of"]


class Name(NamedTuple):
    """
    What tells the series of one subject apart.

    Args:
        metric: A metric's name, or ``segment``.
        source: How the values are known; absent on the conventions' metrics.
        segment: Which segment, where ``metric`` is ``segment``.
    """

    metric: str
    source: str | None = None
    segment: str | None = None


_Values = list[tuple[Name, list[int]]]
_OWN_DURATION: Final = Name("duration", Source.MEASURED.value)


def values_of(record: RequestRecord) -> Iterator[tuple[Subject, _Values]]:
    """
    Yield what a record has values of, with the values by the series' names.

    A record that says what it ``reports`` gives only those segments, its metrics and its
    duration: its chunks and tokens are counted by the calls inside it.

    Yields:
        The subject, and for each of its series nanoseconds for times or plain numbers for
        counts, at least one.
    """
    # `_value_` is the attribute behind the property `value`, at a tenth of its price.
    subject = Subject(
        record.kind._value_, record.side._value_, record.outcome._value_, **record.attributes
    )
    yield subject, _own_values(record)
    if record.convention:
        yield from _of_conventions(record)


def _own_values(record: RequestRecord) -> _Values:
    reported = record.segments if record.reports is None else record.reports
    values: _Values = [
        (Name(SEGMENT, total.source._value_, total.name), [total.duration_ns])
        for total in totals(reported)
    ]
    # Whatever the metrics say, the duration is the one that the segments sum to.
    values.append((_OWN_DURATION, [record.duration_ns]))
    values += [
        (Name(name, value.source._value_), [value.value])
        for name, value in record.metrics.items()
        if name != "duration"
    ]
    if record.reports is not None:
        return values
    gaps: defaultdict[Source, list[int]] = defaultdict(list)
    for gap in record.chunk_gaps:
        gaps[gap.source].append(gap.value)
    values += [(Name("chunk_gap", source._value_), held) for source, held in gaps.items()]
    tokens = record.tokens
    values += [
        (Name(name, tokens.source._value_), [count])
        for name, count in (
            ("input_tokens", tokens.input),
            ("cached_tokens", tokens.cached),
            ("output_tokens", tokens.output),
            ("reasoning_tokens", tokens.reasoning),
        )
        if count is not None
    ]
    return values


_DURATION: Final = Name(semconv.METRIC_OPERATION_DURATION)
_FIRST_CHUNK: Final = Name(semconv.METRIC_OPERATION_TIME_TO_FIRST_CHUNK)
_PER_CHUNK: Final = Name(semconv.METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK)
_TOKENS: Final = Name(semconv.METRIC_TOKEN_USAGE)


def _of_conventions(record: RequestRecord) -> Iterator[tuple[Subject, _Values]]:
    """Yield what the GenAI conventions define, under their names and with their attributes."""
    call = Subject(record.kind._value_, **record.convention)
    # What came before a failure has no `error.type`: they want that on durations alone.
    answer = call if call.error_type is None else call._replace(error_type=None)
    answered: _Values = []
    first = record.metrics.get("time_to_first_chunk")
    if first is not None:
        answered.append((_FIRST_CHUNK, [first.value]))
    if record.output_chunk_gaps_ns:
        answered.append((_PER_CHUNK, list(record.output_chunk_gaps_ns)))
    yield call, [(_DURATION, [record.duration_ns])]
    yield answer, answered
    tokens = record.tokens
    if tokens.source is TokenSource.PROVIDER:
        for token_type, count in (("input", tokens.input), ("output", tokens.output)):
            if count is not None:
                yield answer._replace(token_type=token_type), [(_TOKENS, [count])]
