"""Which values of a finished request belong to which series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from latspan import semconv
from latspan._metrics import time_per_output_token
from latspan._recording._record import RequestRecord
from latspan._recording._series import SEGMENT, SeriesKey, Subject
from latspan._segments import Outcome, Segment, Side, Source, totals

__all__ = ["Shape", "Values", "keys_of", "values_of"]

Name = tuple[str, str | None, str | None, str]
"""
What tells the series of one record apart: metric, source and segment, as in a ``SeriesKey``, and
under which of the record's subjects.

A plain tuple, because a call makes twenty.
"""

Labels = tuple[str, str, str, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
"""What a record says of itself: kind, side, outcome, attributes, and those of the conventions."""

_OF_WHOLE_ANSWERS: Final = frozenset({"service_tier", "system_fingerprint"})
"""
Attributes that durations and token counts have, and the times of chunks have not.

Source: OpenTelemetry GenAI conventions, "Semantic conventions for OpenAI", metrics.
"""

# The subjects of a record: its own, and those that the GenAI conventions' metrics are of.
_OWN: Final = "own"
_OPERATION: Final = "operation"
_ANSWER: Final = "answer"
_INPUT: Final = "input"
_OUTPUT: Final = "output"


class Shape(NamedTuple):
    """
    What records whose values belong to the same series have in common; a key of dictionaries.

    Args:
        labels: What they say of themselves.
        single: The names of which each has one value.
        several: The names of which each has any number of values, at least one.
    """

    labels: Labels
    single: tuple[Name, ...]
    several: tuple[Name, ...]


class Values(NamedTuple):
    """
    What a record has recorded: nanoseconds for times, plain numbers for counts.

    Args:
        shape: What the series are made of.
        single: In the order of the shape's names.
        several: Likewise.
    """

    shape: Shape
    single: list[int]
    several: list[Sequence[int]]


# Many requests have few shapes, and keys that have sixteen fields are not made in no time.
@lru_cache(maxsize=128)
def keys_of(shape: Shape) -> tuple[tuple[SeriesKey, ...], tuple[SeriesKey, ...]]:
    """Return the series of single values, and of several, in the order of the shape's names."""
    subjects = _subjects_of(shape.labels)

    def key(name: Name) -> SeriesKey:
        metric, source, segment, whose = name
        return SeriesKey(metric, subjects[whose], source, segment).storable()

    return tuple(map(key, shape.single)), tuple(map(key, shape.several))


def _subjects_of(labels: Labels) -> dict[str, Subject]:
    kind, side, outcome, said, convention = labels
    # What came before a failure has no `error.type`: they want that on durations alone.
    used = {name: value for name, value in convention if name != "error_type"}
    # And of OpenAI's own, which are of a whole answer, nothing on the times of single chunks.
    answer = {name: value for name, value in used.items() if name not in _OF_WHOLE_ANSWERS}
    return {
        _OWN: Subject(kind, side, outcome, **dict(said)),
        _OPERATION: Subject(kind, **dict(convention)),
        _ANSWER: Subject(kind, **answer),
        _INPUT: Subject(kind, **used, token_type="input"),
        _OUTPUT: Subject(kind, **used, token_type="output"),
    }


def values_of(record: RequestRecord) -> Values:
    """
    Return what a record has values of.

    A record that says what it ``reports`` gives only those segments, its metrics and its
    duration: its chunks and tokens are counted by the calls inside it.
    """
    gathered = _Gathered()
    gathered.add_own(record)
    if record.convention:
        if record.side is Side.CLIENT:
            gathered.add_of_a_client(record)
        else:
            gathered.add_of_a_server(record)
    # `_value_` is the attribute behind the property `value`, at a tenth of its price.
    labels = (
        record.kind._value_,
        record.side._value_,
        record.outcome._value_,
        tuple(record.attributes.items()),
        tuple(record.convention.items()),
    )
    shape = Shape(labels, tuple(gathered.names), tuple(gathered.names_of_several))
    return Values(shape, gathered.single, gathered.several)


_OWN_DURATION: Final = ("duration", Source.MEASURED.value, None, _OWN)
_DURATION: Final = (semconv.METRIC_OPERATION_DURATION, None, None, _OPERATION)
_FIRST_CHUNK: Final = (semconv.METRIC_OPERATION_TIME_TO_FIRST_CHUNK, None, None, _ANSWER)
_PER_CHUNK: Final = (semconv.METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK, None, None, _ANSWER)
_TOKENS_IN: Final = (semconv.METRIC_TOKEN_USAGE, None, None, _INPUT)
_TOKENS_OUT: Final = (semconv.METRIC_TOKEN_USAGE, None, None, _OUTPUT)
_SERVED: Final = (semconv.METRIC_SERVER_REQUEST_DURATION, None, None, _OPERATION)
_SERVED_FIRST: Final = (semconv.METRIC_SERVER_TIME_TO_FIRST_TOKEN, None, None, _OPERATION)
_SERVED_PER_TOKEN: Final = (semconv.METRIC_SERVER_TIME_PER_OUTPUT_TOKEN, None, None, _OPERATION)


def _by_name(segments: tuple[Segment, ...]) -> Iterable[tuple[str, int, Source]]:
    """Return the sums by name, without adding anything up where no name comes twice."""
    lengths = [(name, end_ns - start_ns, source) for name, start_ns, end_ns, source in segments]
    return lengths if len({name for name, _, _ in lengths}) == len(lengths) else totals(segments)


class _Gathered:
    """The values of one record in the making, with their names beside them."""

    __slots__ = ("names", "names_of_several", "several", "single")

    def __init__(self) -> None:
        self.names: list[Name] = []
        self.single: list[int] = []
        self.names_of_several: list[Name] = []
        self.several: list[Sequence[int]] = []

    def add_own(self, record: RequestRecord) -> None:
        """Add what latspan's own metrics are of."""
        names, single = self.names, self.single
        reported = record.segments if record.reports is None else record.reports
        for name, duration_ns, source in _by_name(reported):
            names.append((SEGMENT, source._value_, name, _OWN))
            single.append(duration_ns)
        # Whatever the metrics say, the duration is the one that the segments sum to.
        names.append(_OWN_DURATION)
        single.append(record.duration_ns)
        for name, (value, source) in record.metrics.items():
            if name != "duration":
                names.append((name, source._value_, None, _OWN))
                single.append(value)
        if record.reports is None:
            self._add_chunks_and_tokens(record)

    def _add_chunks_and_tokens(self, record: RequestRecord) -> None:
        gaps: defaultdict[Source, list[int]] = defaultdict(list)
        for value, source in record.chunk_gaps:
            gaps[source].append(value)
        for source, held in gaps.items():
            self.names_of_several.append(("chunk_gap", source._value_, None, _OWN))
            self.several.append(held)
        tokens = record.tokens
        for name, count in (
            ("input_tokens", tokens.input),
            ("cached_tokens", tokens.cached),
            ("output_tokens", tokens.output),
            ("reasoning_tokens", tokens.reasoning),
        ):
            if count is not None:
                self._add((name, tokens.source._value_, None, _OWN), count)

    def add_of_a_server(self, record: RequestRecord) -> None:
        """Add what the GenAI conventions define for a server."""
        self._add(_SERVED, record.duration_ns)
        first, count = record.metrics.get("time_to_first_token"), record.tokens.output
        # They want both of successful answers alone.
        if first is None or record.outcome is not Outcome.COMPLETED:
            return
        self._add(_SERVED_FIRST, first.value)
        if count is not None:
            pace = time_per_output_token(record.duration_ns - first.value, count)
            if pace is not None:
                self._add(_SERVED_PER_TOKEN, pace)

    def add_of_a_client(self, record: RequestRecord) -> None:
        """Add what the GenAI conventions define for a client."""
        self._add(_DURATION, record.duration_ns)
        first = record.metrics.get("time_to_first_chunk")
        if first is not None:
            self._add(_FIRST_CHUNK, first.value)
        if record.output_chunk_gaps_ns:
            self.names_of_several.append(_PER_CHUNK)
            self.several.append(record.output_chunk_gaps_ns)
        # Estimated ones too: nobody has them who did not ask for them, as the conventions want.
        tokens = record.tokens
        if tokens.input is not None:
            self._add(_TOKENS_IN, tokens.input)
        if tokens.output is not None:
            self._add(_TOKENS_OUT, tokens.output)

    def _add(self, name: Name, value: int) -> None:
        self.names.append(name)
        self.single.append(value)
