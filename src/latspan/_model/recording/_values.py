"""
Assignment of a finished request's values to series.

A series of values has only values that the metric really had. What is known of the others is in a
second series next to it, whose name ends with :data:`~latspan._model.censoring.AT_LEAST`: the time
that the caller waited before it gave up, or before the request failed. The outcome in its labels
shows which of the two it is; see :mod:`latspan._model.recording._population` for how both are read.
The duration needs no second series, because every duration has an outcome. The time of a segment is
in its series of values in any case, because the segments sum to the duration; if the request ended
in that segment, the time is also in the second series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from latspan import semconv
from latspan._model.censoring import AT_LEAST, ValueState
from latspan._model.metrics import (
    CHUNK_GAP,
    DURATION,
    FIRST_WAITS,
    GROWING,
    LATENCY_METRICS,
    TIME_TO_FIRST_CHUNK,
    TIME_TO_FIRST_TOKEN,
    TIME_TO_FIRST_VISIBLE_TOKEN,
    time_per_output_token,
    unit_of,
)
from latspan._model.recording._series import SEGMENT, SeriesKey, Subject, storable, subject_of
from latspan._model.segments import CUT, Kind, Outcome, Segment, Side, Source, totals

if TYPE_CHECKING:
    from latspan._model.recording._record import RequestRecord

Name = tuple[str, str | None, str | None, str]
"""
Name that distinguishes the series of one record: metric, source, segment and subject.

The first three are as in a ``SeriesKey``; the last names one of the record's subjects. It is a
plain tuple for speed, because each call has about twenty.
"""

Labels = tuple[str, str, str, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
"""Labels of a record: kind, side, outcome, attributes, and the attributes of the conventions."""

_OF_WHOLE_ANSWERS: Final = frozenset({"service_tier", "system_fingerprint"})
"""
Attributes that durations and token counts have, but the times of chunks do not.

Source: OpenTelemetry GenAI conventions, "Semantic conventions for OpenAI", metrics.
"""

# The subjects of a record: its own, and those of the GenAI conventions' metrics.
_OWN: Final = "own"
_OPERATION: Final = "operation"
_ANSWER: Final = "answer"
_INPUT: Final = "input"
_OUTPUT: Final = "output"


class Shape(NamedTuple):
    """
    Common form of records whose values belong to the same series; a key of dictionaries.

    Args:
        labels: Labels of the records.
        single: Names that have one value per record.
        several: Names that have any number of values per record, at least one.
    """

    labels: Labels
    single: tuple[Name, ...]
    several: tuple[Name, ...]


class Values(NamedTuple):
    """
    Recorded values of one record: nanoseconds for times, plain numbers for counts.

    Args:
        shape: Labels and names, from which the series keys are made.
        single: Values in the order of the shape's ``single`` names.
        several: Values in the order of the shape's ``several`` names.
    """

    shape: Shape
    single: list[int]
    several: list[Sequence[int]]


# Cached: requests have only few different shapes, and creating keys of sixteen fields takes time.
@lru_cache(maxsize=128)
def keys_of(shape: Shape) -> tuple[tuple[SeriesKey, ...], tuple[SeriesKey, ...]]:
    """Return the series of single and of several values, in the order of the shape's names."""
    subjects = _subjects_of(shape.labels)

    def key(name: Name) -> SeriesKey:
        metric, source, segment, whose = name
        return storable(SeriesKey(metric, subjects[whose], source, segment))

    return tuple(map(key, shape.single)), tuple(map(key, shape.several))


def _subjects_of(labels: Labels) -> dict[str, Subject]:
    kind, side, outcome, own, convention = labels
    # The conventions define `error.type` only for durations, not for values from before a
    # failure.
    used = {name: value for name, value in convention if name != "error_type"}
    # OpenAI's own attributes describe a whole response, so the times of single chunks do not have
    # them.
    response = {name: value for name, value in used.items() if name not in _OF_WHOLE_ANSWERS}
    return {
        _OWN: subject_of({**dict(own), "kind": kind, "side": side, "outcome": outcome}),
        _OPERATION: subject_of({"kind": kind, **dict(convention)}),
        _ANSWER: subject_of({"kind": kind, **response}),
        _INPUT: subject_of({"kind": kind, **used, "token_type": "input"}),
        _OUTPUT: subject_of({"kind": kind, **used, "token_type": "output"}),
    }


def values_of(record: RequestRecord) -> Values:
    """
    Return the values of a record.

    A request or stage has no values of chunks and tokens: the calls inside record them.
    """
    gathered = _Gathered()
    gathered.add_own(record)
    if record.convention:
        if record.side is Side.CLIENT:
            gathered.add_of_a_client(record)
        else:
            gathered.add_of_a_server(record)
    # `_value_` is the attribute behind the property `value`, at a tenth of its cost.
    labels = (
        record.kind._value_,
        record.side._value_,
        record.outcome._value_,
        tuple(record.attributes.items()),
        tuple(record.convention.items()),
    )
    shape = Shape(labels, tuple(gathered.names), tuple(gathered.names_of_several))
    return Values(shape, gathered.single, gathered.several)


_CENSORED: Final = tuple(
    name for name, metric in LATENCY_METRICS.items() if name != DURATION and not metric.distribution
)
"""Metrics with at most one value per request, and a series for what is known without a value."""

_FIRST_WAITS: Final = tuple(name for name in _CENSORED if name in FIRST_WAITS)
_NAMES_AT_LEAST: Final[dict[str, Name]] = {
    name: (name + AT_LEAST, Source.MEASURED.value, None, _OWN) for name in _CENSORED
}
_GAP_AT_LEAST: Final[Name] = (CHUNK_GAP + AT_LEAST, Source.MEASURED.value, None, _OWN)
_SEGMENT_AT_LEAST: Final = SEGMENT + AT_LEAST
_LAST_WAIT: Final = TIME_TO_FIRST_VISIBLE_TOKEN
"""A stream that has this metric has all of :data:`~latspan._model.censoring.FIRST_WAITS`."""

_SCOPES: Final = frozenset({Kind.REQUEST, Kind.INNER_REQUEST, Kind.STAGE})

_OWN_DURATION: Final = (DURATION, Source.MEASURED.value, None, _OWN)
_DURATION: Final = (semconv.METRIC_OPERATION_DURATION, None, None, _OPERATION)
_FIRST_CHUNK: Final = (semconv.METRIC_OPERATION_TIME_TO_FIRST_CHUNK, None, None, _ANSWER)
_PER_CHUNK: Final = (semconv.METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK, None, None, _ANSWER)
_TOKENS_IN: Final = (semconv.METRIC_TOKEN_USAGE, None, None, _INPUT)
_TOKENS_OUT: Final = (semconv.METRIC_TOKEN_USAGE, None, None, _OUTPUT)
_SERVED: Final = (semconv.METRIC_SERVER_REQUEST_DURATION, None, None, _OPERATION)
_SERVED_FIRST: Final = (semconv.METRIC_SERVER_TIME_TO_FIRST_TOKEN, None, None, _OPERATION)
_SERVED_PER_TOKEN: Final = (semconv.METRIC_SERVER_TIME_PER_OUTPUT_TOKEN, None, None, _OPERATION)


def _by_name(segments: tuple[Segment, ...]) -> Iterable[tuple[str, int, Source]]:
    """Return the sums by name, without adding anything up if no name occurs twice."""
    lengths = [(name, end_ns - start_ns, source) for name, start_ns, end_ns, source in segments]
    return lengths if len({name for name, _, _ in lengths}) == len(lengths) else totals(segments)


class _Gathered:
    """Values of one record while they are collected, with their names next to them."""

    __slots__ = ("names", "names_of_several", "several", "single")

    def __init__(self) -> None:
        self.names: list[Name] = []
        self.single: list[int] = []
        self.names_of_several: list[Name] = []
        self.several: list[Sequence[int]] = []

    def add_own(self, record: RequestRecord) -> None:
        """Add the values of latspan's own metrics."""
        names, single = self.names, self.single
        reported = record.segments if record.reports is None else record.reports
        for name, duration_ns, source in _by_name(reported):
            names.append((SEGMENT, source._value_, name, _OWN))
            single.append(duration_ns)
        # The duration is always the sum of the segments, whatever `metrics` holds.
        names.append(_OWN_DURATION)
        single.append(record.duration_ns)
        for name, (value, source) in record.metrics.items():
            if name != DURATION:
                names.append((name, source._value_, None, _OWN))
                single.append(value)
        if record.kind not in _SCOPES:
            self._add_chunks_and_tokens(record)
        # Most requests are complete, so for them this check must be all that is done.
        if record.outcome is not Outcome.COMPLETED:
            self._add_bounds(record)
            self._add_unknown(record, _CENSORED)
        elif _LAST_WAIT not in record.metrics and record.is_streamed:
            self._add_unknown(record, _FIRST_WAITS)

    def _add_bounds(self, record: RequestRecord) -> None:
        """Add the lower bounds among the values to their own series, and the open gap."""
        open_segments = record.open_segments
        if record.reports is not None and (
            # A call or a stage inside reports the segment in which the request ended.
            not record.reports or record.reports[-1].end_ns < record.duration_ns
        ):
            open_segments = frozenset[str]()
        is_cut = record.outcome in CUT
        for at, (metric, source, segment, whose) in enumerate(self.names.copy()):
            if metric == SEGMENT:
                if segment in open_segments:
                    # It stays a segment too: the segments of a request sum to its duration.
                    self._add((_SEGMENT_AT_LEAST, source, segment, whose), self.single[at])
            elif is_cut and metric in GROWING:
                self.names[at] = (metric + AT_LEAST, source, segment, whose)
                self.single[at] = record.lower_bound(metric)
        gap_ns = None if record.kind in _SCOPES else record.open_gap_ns
        if gap_ns is not None:
            self._add(_GAP_AT_LEAST, gap_ns)

    def _add_unknown(self, record: RequestRecord, metrics: Iterable[str]) -> None:
        """Add what is known of metrics without a value."""
        for metric in metrics:
            if metric in record.metrics:
                continue
            state = record.state(metric)
            if state is ValueState.AT_LEAST:
                self._add(_NAMES_AT_LEAST[metric], record.lower_bound(metric))
            elif state is ValueState.UNKNOWN:
                self._add(_NAMES_AT_LEAST[metric], 0)
            elif state is ValueState.NEVER:
                is_time = unit_of(metric) == "s"
                self._add(_NAMES_AT_LEAST[metric], record.duration_ns if is_time else 0)

    def _add_chunks_and_tokens(self, record: RequestRecord) -> None:
        gaps: defaultdict[Source, list[int]] = defaultdict(list)
        for value, source in record.chunk_gaps:
            gaps[source].append(value)
        for source, held in gaps.items():
            self.names_of_several.append((CHUNK_GAP, source._value_, None, _OWN))
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
        first, count = record.metrics.get(TIME_TO_FIRST_TOKEN), record.tokens.output
        # The conventions define both metrics only for successful responses.
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
        first = record.metrics.get(TIME_TO_FIRST_CHUNK)
        if first is not None:
            self._add(_FIRST_CHUNK, first.value)
        if record.output_chunk_gaps_ns:
            self.names_of_several.append(_PER_CHUNK)
            self.several.append(record.output_chunk_gaps_ns)
        # Estimated counts are included: they exist only if the application opted in, as the
        # conventions require.
        tokens = record.tokens
        if tokens.input is not None:
            self._add(_TOKENS_IN, tokens.input)
        if tokens.output is not None:
            self._add(_TOKENS_OUT, tokens.output)

    def _add(self, name: Name, value: int) -> None:
        self.names.append(name)
        self.single.append(value)
