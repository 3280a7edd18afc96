"""Which values of a finished request belong to which series."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from latspan import semconv
from latspan.metrics import time_per_output_token
from latspan.recording._record import RequestRecord
from latspan.recording._series import SEGMENT, Subject
from latspan.segments import Outcome, Side, Source, totals

__all__ = ["Name", "values_of"]


Name = tuple[str, str | None, str | None]
"""
What tells the series of one subject apart: metric, source and segment, as in a ``SeriesKey``.

A plain tuple, because a call makes twenty.
"""

_Values = list[tuple[Name, list[int]]]
_OWN_DURATION: Final = ("duration", Source.MEASURED.value, None)


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
    measured_on = record.kind._value_, record.side._value_, record.outcome._value_
    yield _subject(*measured_on, tuple(record.attributes.items())), _own_values(record)
    if record.convention:
        of_conventions = _of_a_client if record.side is Side.CLIENT else _of_a_server
        yield from of_conventions(record)


# Many requests have few subjects, and one that has sixteen fields is not made in no time.
@functools.lru_cache(maxsize=512)
def _subject(
    kind: str, side: str | None, outcome: str | None, said: tuple[tuple[str, str], ...]
) -> Subject:
    return Subject(kind, side, outcome, **dict(said))


def _own_values(record: RequestRecord) -> _Values:
    reported = record.segments if record.reports is None else record.reports
    values: _Values = [
        ((SEGMENT, source._value_, name), [duration_ns])
        for name, duration_ns, source in totals(reported)
    ]
    # Whatever the metrics say, the duration is the one that the segments sum to.
    values.append((_OWN_DURATION, [record.duration_ns]))
    values += [
        ((name, source._value_, None), [value])
        for name, (value, source) in record.metrics.items()
        if name != "duration"
    ]
    if record.reports is not None:
        return values
    gaps: defaultdict[Source, list[int]] = defaultdict(list)
    for value, source in record.chunk_gaps:
        gaps[source].append(value)
    values += [(("chunk_gap", source._value_, None), held) for source, held in gaps.items()]
    tokens = record.tokens
    values += [
        ((name, tokens.source._value_, None), [count])
        for name, count in (
            ("input_tokens", tokens.input),
            ("cached_tokens", tokens.cached),
            ("output_tokens", tokens.output),
            ("reasoning_tokens", tokens.reasoning),
        )
        if count is not None
    ]
    return values


_DURATION: Final = (semconv.METRIC_OPERATION_DURATION, None, None)
_FIRST_CHUNK: Final = (semconv.METRIC_OPERATION_TIME_TO_FIRST_CHUNK, None, None)
_PER_CHUNK: Final = (semconv.METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK, None, None)
_TOKENS: Final = (semconv.METRIC_TOKEN_USAGE, None, None)


_SERVED: Final = (semconv.METRIC_SERVER_REQUEST_DURATION, None, None)
_SERVED_FIRST: Final = (semconv.METRIC_SERVER_TIME_TO_FIRST_TOKEN, None, None)
_SERVED_PER_TOKEN: Final = (semconv.METRIC_SERVER_TIME_PER_OUTPUT_TOKEN, None, None)


def _of_a_server(record: RequestRecord) -> Iterator[tuple[Subject, _Values]]:
    """Yield what the GenAI conventions define for a server, with their attributes."""
    labels = record.convention
    yield _of_convention(record.kind._value_, labels), [(_SERVED, [record.duration_ns])]
    first, count = record.metrics.get("time_to_first_token"), record.tokens.output
    # They want both of successful answers alone.
    if first is None or record.outcome is not Outcome.COMPLETED:
        return
    values: _Values = [(_SERVED_FIRST, [first.value])]
    pace = None if count is None else time_per_output_token(record.duration_ns - first.value, count)
    if pace is not None:
        values.append((_SERVED_PER_TOKEN, [pace]))
    yield _of_convention(record.kind._value_, labels), values


def _of_a_client(record: RequestRecord) -> Iterator[tuple[Subject, _Values]]:
    """Yield what the GenAI conventions define for a client, with their attributes."""
    labels = record.convention
    call = _of_convention(record.kind._value_, labels)
    # What came before a failure has no `error.type`: they want that on durations alone.
    labels = {name: value for name, value in labels.items() if name != "error_type"}
    answer = _of_convention(record.kind._value_, labels)
    answered: _Values = []
    first = record.metrics.get("time_to_first_chunk")
    if first is not None:
        answered.append((_FIRST_CHUNK, [first.value]))
    if record.output_chunk_gaps_ns:
        answered.append((_PER_CHUNK, list(record.output_chunk_gaps_ns)))
    yield call, [(_DURATION, [record.duration_ns])]
    yield answer, answered
    # Estimated ones too: nobody has them who did not ask for them, as the conventions want.
    tokens = record.tokens
    for token_type, count in (("input", tokens.input), ("output", tokens.output)):
        if count is not None:
            counted = _of_convention(record.kind._value_, labels, token_type=token_type)
            yield counted, [(_TOKENS, [count])]


def _of_convention(kind: str, labels: Mapping[str, str], **more: str) -> Subject:
    return _subject(kind, None, None, (*labels.items(), *more.items()))
