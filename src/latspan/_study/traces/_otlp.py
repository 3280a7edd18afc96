"""
Records from OTLP/JSON traces: latspan's own spans, and inference spans of other instrumentations.

latspan's spans have almost everything that a record has. A span of another instrumentation has a
duration, and perhaps tokens and a time to the first chunk. Of its time, only the wait for the first
chunk and the rest of the stream are known: see :mod:`latspan._study.traces._foreign`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from latspan import semconv
from latspan._model.metrics import (
    CHUNK_GAP_MAX,
    DURATION,
    METRICS,
    SPAN_ATTRIBUTES,
    TIME_TO_FIRST_CHUNK,
    TIME_TO_FIRST_TOKEN,
    TIME_TO_FIRST_VISIBLE_TOKEN,
    MetricValue,
)
from latspan._model.recording import RequestRecord, details_of
from latspan._model.recording.folder._checks import LOOKED_UP, MAX_NUMBER
from latspan._model.segments import (
    CUT,
    NOT_READ,
    Kind,
    Mark,
    Outcome,
    Segment,
    SegmentName,
    Side,
    Source,
    exchange_segment,
)
from latspan._model.text import count
from latspan._model.timeline import Activity, ScopeTimeline, scope_timeline
from latspan._model.tokens import UNKNOWN_TOKENS, TokenCounts, TokenSource
from latspan._model.units import BILLIONTHS, MetricUnit
from latspan._study.traces._dialects import Dialect
from latspan._study.traces._foreign import (
    LACKS,
    call_pieces,
    chunk_gaps,
    server_metrics,
    server_pieces,
    with_server,
)
from latspan._study.traces._imported import Imported
from latspan._study.traces._spans import SpanFault, SpanFile, SpanRow, read_spans, seconds_as_ns
from latspan._study.traces._tiling import OFFSET_NS, Piece, segments_without_span, tiled

_SCOPES: Final = frozenset({Kind.REQUEST, Kind.INNER_REQUEST, Kind.STAGE})
_METRICS: Final[Mapping[str, str]] = {
    **SPAN_ATTRIBUTES,
    TIME_TO_FIRST_CHUNK: semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
}
_MARKS: Final = {
    TIME_TO_FIRST_CHUNK: Mark.FIRST_CHUNK,
    TIME_TO_FIRST_TOKEN: Mark.FIRST_TOKEN,
    TIME_TO_FIRST_VISIBLE_TOKEN: Mark.FIRST_VISIBLE,
}
_IDENTIFYING: Final = ("inference_path", "route", "traffic_class", "tenant", "model", "provider")
_AFTER_HEADERS: Final = frozenset({SegmentName.UNATTRIBUTED, SegmentName.POSTPROCESS})
"""Segments of an HTTP exchange after its headers."""
_TOKENS: Final = {
    "input": semconv.GEN_AI_USAGE_INPUT_TOKENS,
    "cached": semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
    "output": semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
    "reasoning": semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
    "cache_write": semconv.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS,
    "audio_input": semconv.GEN_AI_USAGE_AUDIO_INPUT_TOKENS,
    "audio_output": semconv.GEN_AI_USAGE_AUDIO_OUTPUT_TOKENS,
}
_OF_CODE: Final = frozenset(
    {
        SegmentName.APPLICATION.value,
        # As releases before 0.1 named the time of the application.
        *(SegmentName.PREPARE.value, SegmentName.POSTPROCESS.value),
        *(SegmentName.CALL.value, SegmentName.UNATTRIBUTED.value),
    }
)
"""Segments of a request or stage that follow from the steps inside it."""

_REJECTED: Final = frozenset({"429", "RateLimitError", "TooManyRequests"})

_WORDS: Final = {
    Outcome.TIMEOUT: ("timeout", "deadline"),
    Outcome.CANCELLED: ("cancel", "greenletexit"),
    Outcome.CLOSED_EARLY: ("generatorexit",),
}
"""
Parts of the error types of calls that did not fail: ``asyncio.CancelledError``, gRPC's
``DEADLINE_EXCEEDED``, gevent's ``GreenletExit``, and the exception with which Python ends a stream
that its reader has left.
"""

_CLIENT_CLOSED: Final = "499"
"""Status that gateways write if the client closed the connection before the response."""

_MAX_LAG_S: Final = 1e9
"""Longest dispatch lag that is believed, in seconds."""

# An allowlist, because other instrumentations put prompts and responses under names of their own.
_DETAILS_OF_OTHERS: Final = frozenset(
    {
        semconv.ERROR_TYPE,
        semconv.GEN_AI_OPERATION_NAME,
        semconv.GEN_AI_REQUEST_MAX_TOKENS,
        semconv.GEN_AI_REQUEST_STREAM,
        semconv.GEN_AI_REQUEST_TEMPERATURE,
        semconv.GEN_AI_RESPONSE_FINISH_REASONS,
        semconv.GEN_AI_RESPONSE_ID,
        semconv.GEN_AI_RESPONSE_MODEL,
        semconv.HTTP_RESPONSE_STATUS_CODE,
        semconv.SERVER_ADDRESS,
        semconv.SERVER_PORT,
    }
)

_ADDED: Final = "latspan."
"""Beginning of the attributes that latspan adds to a span of another instrumentation."""

_LACKS_OF_LATSPAN: Final = (
    "chunk gaps are missing",
    "segments without a span, such as retry and consumer, have their time but not their place",
    "segments of no length are missing",
)


def read_otlp(
    path: str | os.PathLike[str], *, service: str | None = None, route: str | None = None
) -> Imported:
    """
    Return the requests, calls and stages in a file of the Collector's file exporter.

    Spans of one trace may be anywhere in the file. The whole file is held in memory.

    Args:
        path: The file: OTLP/JSON, one message per line, or one message as a document.
        service: See :func:`requests_in`.
        route: See :func:`requests_in`.

    Raises:
        OSError: The file cannot be read.
        RecordingError: The file is not OTLP/JSON.
    """
    return requests_in(read_spans(Path(path)), service=service, route=route)


def requests_in(
    spans: SpanFile, *, service: str | None = None, route: str | None = None
) -> Imported:
    """
    Return the requests, calls and stages of some spans.

    Args:
        spans: The spans.
        service: Service whose records are returned; spans of the others only add evidence. All
            services if not given.
        route: Route of the records; all routes if not given.
    """
    trees = _Trees(spans)
    kept = [
        (row, record)
        for row, record in trees.records()
        if (service is None or row.service == service)
        and (route is None or record.attributes.get("route") == route)
    ]
    dialects = {row.dialect for row, _ in kept}
    lacks: list[str] = []
    if Dialect.LATSPAN in dialects:
        lacks += _LACKS_OF_LATSPAN
    lacks += [lack for dialect, lack in LACKS.items() if dialect in dialects]
    skipped: list[str] = []
    if spans.cut_lines:
        skipped.append(f"{count(spans.cut_lines, 'line')} cannot be read")
    if spans.damaged:
        skipped.append(f"{count(spans.damaged, 'span')} not used, which OTLP does not allow")
    if trees.nested:
        skipped.append(
            f"{count(trees.nested, 'span')} inside another span of the same call not used"
        )
    if spans.others:
        skipped.append(f"{count(spans.others, 'span')} of no request or call not used")
    return Imported(
        "otlp",
        tuple(record for _, record in kept),
        tuple(lacks),
        tuple(skipped),
        left_out=tuple(_left_out(spans)),
    )


def _left_out(spans: SpanFile) -> Iterator[str]:
    for fault in SpanFault:
        if spans.faults[fault]:
            yield fault.sentence(spans.faults[fault], "span")
    if spans.chunks_outside:
        yield (
            f"the chunk times of {count(spans.chunks_outside, 'span')} were left out: a chunk"
            " arrived outside its span"
        )
    if spans.late_first:
        yield (
            f"the time to the first chunk or token of {count(spans.late_first, 'span')} was left"
            " out: it is longer than the span"
        )


class _Trees:
    """
    Spans by their position in their traces.

    A *unit* is a span that becomes a record of its own.

    Args:
        spans: Spans of a file.
    """

    def __init__(self, spans: SpanFile) -> None:
        self._parents = spans.parents
        self._routes = spans.routes
        rows = {(row.trace_id, row.span_id): row for row in spans.rows if not row.is_segment}
        self._units = rows
        self.nested = 0
        self._servers: dict[tuple[int, int], SpanRow] = {}
        for identity, row in list(rows.items()):
            call = None if row.is_latspans else self._call_above(identity)
            if call is None:
                continue
            del rows[identity]
            if row.dialect is Dialect.MODEL_SERVER:
                known = self._servers.get(call)
                # The last attempt is the one that was answered.
                if known is None or known.start_ns < row.start_ns:
                    self._servers[call] = row
            else:
                self.nested += 1
        self.units = sorted(rows.values(), key=self._place)
        scopes = [row for row in self.units if _kind(row) in _SCOPES]
        self._numbers = {
            (row.trace_id, row.span_id): number for number, row in enumerate(scopes, 1)
        }
        self._segments: defaultdict[tuple[int, int], list[SpanRow]] = defaultdict(list)
        for row in spans.rows:
            parent = spans.parents.get((row.trace_id, row.span_id))
            if row.is_segment and parent is not None:
                self._segments[row.trace_id, parent].append(row)
        self._pieces: dict[tuple[int, int], tuple[Piece, ...]] = {}
        self._activities: dict[tuple[int, int], Activity] = {}
        self._timelines: dict[tuple[int, int], ScopeTimeline] = {}
        self._inside: defaultdict[tuple[int, int], list[SpanRow]] = defaultdict(list)
        for row in self.units:
            above = self._unit_above((row.trace_id, row.span_id))
            if above is not None:
                self._inside[above].append(row)

    def records(self) -> Iterator[tuple[SpanRow, RequestRecord]]:
        """Yield one record per unit with its span, in the order of their ends."""
        for row in self.units:
            # Those inside it come before it, so no depth of nesting needs recursion.
            identity = row.trace_id, row.span_id
            if _kind(row) in _SCOPES and row.is_latspans:
                scope = self._activities[identity] = self._scope(row)
                self._timelines[identity] = _timeline(scope, row)
            else:
                self._pieces[identity] = self._pieces_of(row)
            yield row, self._record(row)

    def _place(self, row: SpanRow) -> tuple[int, int]:
        """Return the place of a unit: before every unit that it is inside of."""
        # Each span has a clock reading of its own, so a call may seem to end after its request.
        end_ns, depth = row.end_ns, 0
        above = self._unit_above((row.trace_id, row.span_id))
        while above is not None:
            end_ns, depth = min(end_ns, self._units[above].end_ns), depth + 1
            above = self._unit_above(above)
        return end_ns, -depth

    def _unit_above(self, identity: tuple[int, int]) -> tuple[int, int] | None:
        """Return the nearest unit that a span is inside of."""
        while (parent := self._parents.get(identity)) is not None:
            identity = identity[0], parent
            if identity in self._units:
                return identity
        return None

    def _scopes_above(self, identity: tuple[int, int]) -> Iterator[int]:
        """Yield the numbers of the requests and stages that a unit is inside of, from the inner."""
        above = self._unit_above(identity)
        while above is not None:
            if above in self._numbers:
                yield self._numbers[above]
            above = self._unit_above(above)

    def _call_above(self, identity: tuple[int, int]) -> tuple[int, int] | None:
        """Return the call that a span is directly inside of."""
        above = self._unit_above(identity)
        if above is None or _kind(self._units[above]) is not Kind.CALL:
            return None
        return above

    def _route_above(self, identity: tuple[int, int] | None) -> str | None:
        """Return the route of the nearest served request that a span is inside of."""
        while identity is not None and identity not in self._routes:
            parent = self._parents.get(identity)
            identity = None if parent is None else (identity[0], parent)
        return None if identity is None else self._routes[identity]

    def _record(self, row: SpanRow) -> RequestRecord:
        identity = row.trace_id, row.span_id
        kind = _kind(row)
        server = self._servers.get(identity)
        scope = self._timelines.get(identity)
        segments = (
            tuple(each.segment for each in self._pieces[identity])
            if scope is None
            else scope.timeline.segments
        )
        gaps = chunk_gaps(row)
        metrics = {**_metrics(row), **server_metrics(row)}
        if gaps:
            metrics[CHUNK_GAP_MAX] = max(gaps, key=lambda gap: gap.value)
        attributes = _attributes(row)
        route = self._route_above(identity)
        if route is not None:
            attributes.setdefault("route", route)
        tokens = _tokens(row)
        if server is not None and tokens == UNKNOWN_TOKENS:
            tokens = _tokens(server)
        scopes = list(self._scopes_above(identity))
        number = self._numbers.get(identity, 0)
        return RequestRecord(
            name=row.name,
            kind=kind,
            side=Side.SERVER if row.is_server else Side.CLIENT,
            outcome=_outcome(row),
            start_epoch_ns=row.start_ns,
            duration_ns=row.end_ns - row.start_ns,
            segments=segments,
            reports=_reports(kind, scope),
            steps=() if scope is None else scope.steps,
            segment_steps=() if scope is None or not scope.steps else scope.segment_steps,
            metrics=metrics,
            chunk_gaps=gaps,
            tokens=tokens,
            attributes=attributes,
            details=(details := _details(row)),
            streamed=_streamed(details),
            trace_id=row.trace_id,
            span_id=row.span_id,
            scope_id=number,
            parent_id=scopes[0] if scopes else 0,
            root_id=scopes[-1] if scopes else number,
            marks_ns=_marks(row, metrics, segments) if kind is Kind.CALL else {},
        )

    def _pieces_of(self, row: SpanRow) -> tuple[Piece, ...]:
        """Return the pieces that tile a unit."""
        if row.dialect is Dialect.MODEL_SERVER:
            return server_pieces(row)
        server = self._servers.get((row.trace_id, row.span_id))
        if not row.is_latspans:
            return with_server(call_pieces(row), server, is_latspans=False)
        tiles = tiled(
            self._segments_of(row),
            row.end_ns - row.start_ns,
            segments_without_span(row.attributes),
        )
        return with_server(tiles, server, is_latspans=True)

    def _segments_of(self, row: SpanRow) -> list[Piece]:
        """Return the segments of a unit that have a span."""
        return [
            Piece(
                str(each.attributes[semconv.LATSPAN_SEGMENT]),
                each.start_ns - row.start_ns,
                each.end_ns - row.start_ns,
                _source(each.attributes.get(semconv.LATSPAN_SOURCE)),
            )
            for each in self._segments[row.trace_id, row.span_id]
        ]

    def _scope(self, row: SpanRow) -> Activity:
        """Return a request or stage with the activities inside it."""
        kind = _kind(row)
        name = row.name
        if kind is Kind.STAGE:
            name = str(row.attributes.get(semconv.LATSPAN_SEGMENT, name))
        scope = Activity(
            kind,
            name,
            row.start_ns,
            row.end_ns,
            was_cut=_outcome(row) in CUT,
            source=_source(row.attributes.get(semconv.LATSPAN_SOURCE, Source.MEASURED)),
        )
        for each in self._inside[row.trace_id, row.span_id]:
            activity = self._activity(each, row)
            if activity is not None:
                scope.children.append(_within(activity, row))
        # What is not a step: the event loop was blocked, or a write was held up.
        scope.children += [
            _part(piece, row) for piece in self._segments_of(row) if piece.name not in _OF_CODE
        ]
        return scope

    def _activity(self, row: SpanRow, scope: SpanRow) -> Activity | None:
        """Return a unit as an activity of the request or stage above it; ``None`` if it is none."""
        identity, kind = (row.trace_id, row.span_id), _kind(row)
        if kind in _SCOPES:
            # A served request is not a part of its caller's, even in the same process.
            is_served = kind is Kind.REQUEST and row.is_server
            return None if is_served else self._activities.get(identity)
        if kind is Kind.HTTP:
            # A stage covers the exchanges inside it.
            return None if _kind(scope) is Kind.STAGE else self._exchange(row, scope)
        return Activity(
            Kind.CALL,
            row.name,
            row.start_ns,
            row.end_ns,
            was_cut=_outcome(row) in CUT,
            segments=tuple(each.segment for each in self._pieces[identity]),
        )

    def _exchange(self, row: SpanRow, request: SpanRow) -> Activity:
        """Return an HTTP exchange inside a request."""
        pieces = self._pieces[row.trace_id, row.span_id]
        outcome = _outcome(row)
        if outcome in NOT_READ:
            pieces = [each for each in pieces if each.name != SegmentName.POSTPROCESS]
        elif row.end_ns > request.end_ns:
            # The request waited for the headers; its end was not that of the body.
            waited = [each for each in pieces if each.name not in _AFTER_HEADERS]
            pieces = waited or pieces
        host = str(row.attributes.get(semconv.SERVER_ADDRESS, ""))
        port: object = row.attributes.get(semconv.SERVER_PORT)
        return Activity(
            Kind.HTTP,
            exchange_segment(host, port if isinstance(port, int) else None),
            row.start_ns,
            row.start_ns + max((each.end_ns for each in pieces), default=0),
            was_cut=outcome is Outcome.CANCELLED,
        )


def _timeline(scope: Activity, row: SpanRow) -> ScopeTimeline:
    """Return the timeline of a request or stage."""
    timeline = scope_timeline(scope, keeps_open=scope.was_cut)
    # Parts of several intervals have only their sum: it is taken from the end of the own time.
    for name, sum_ns in segments_without_span(row.attributes).items():
        if name in _OF_CODE or name == scope.name:
            continue
        left_ns = sum_ns
        for segment in reversed(timeline.own):
            begin_ns = max(segment.start_ns, segment.end_ns - left_ns)
            if segment.name == scope.own_name and begin_ns < segment.end_ns:
                piece = Piece(name, begin_ns, segment.end_ns, Source.ESTIMATED)
                scope.children.append(_part(piece, row))
                left_ns -= segment.end_ns - begin_ns
        timeline = scope_timeline(scope, keeps_open=scope.was_cut)
    return timeline


def _within(activity: Activity, row: SpanRow) -> Activity:
    """Return an activity whose edges are those of the span above if they differ by clocks only."""
    if row.start_ns - OFFSET_NS <= activity.start_ns < row.start_ns:
        activity.start_ns = row.start_ns
    if activity.done_ns is not None and row.end_ns < activity.done_ns <= row.end_ns + OFFSET_NS:
        activity.done_ns = row.end_ns
    return activity


def _part(piece: Piece, row: SpanRow) -> Activity:
    """Return a part of the own time of a request or stage."""
    start_ns = row.start_ns
    return Activity(
        None, piece.name, start_ns + piece.start_ns, start_ns + piece.end_ns, source=piece.source
    )


def _reports(kind: Kind, scope: ScopeTimeline | None) -> tuple[Segment, ...] | None:
    """Return the segments that a record counts, as the running process does."""
    if kind is Kind.INNER_REQUEST:
        return ()
    return scope.own if scope is not None and kind is Kind.STAGE else None


def _kind(row: SpanRow) -> Kind:
    try:
        return Kind(str(row.attributes.get(semconv.LATSPAN_KIND, Kind.CALL)))
    except ValueError:
        return Kind.CALL


def _source(text: object) -> Source:
    try:
        return Source(str(text))
    except ValueError:
        return Source.UNKNOWN


def _outcome(row: SpanRow) -> Outcome:
    recorded = str(row.attributes.get(semconv.LATSPAN_OUTCOME))
    if recorded in set(Outcome):
        return Outcome(recorded)
    error = str(row.attributes.get(semconv.ERROR_TYPE, ""))
    status = str(row.attributes.get(semconv.HTTP_RESPONSE_STATUS_CODE, ""))
    if status == "429" or any(each in error for each in _REJECTED):
        return Outcome.REJECTED
    lowered = error.lower()
    for outcome, words in _WORDS.items():
        if any(word in lowered for word in words):
            return outcome
    if status == _CLIENT_CLOSED:
        return Outcome.CANCELLED
    return Outcome.ERROR if error or row.failed else Outcome.COMPLETED


def _metrics(row: SpanRow) -> dict[str, MetricValue]:
    metrics = {DURATION: MetricValue(row.end_ns - row.start_ns)}
    listed: object = row.attributes.get(semconv.LATSPAN_ESTIMATED_ATTRIBUTES)
    estimated = cast("list[object]", listed) if isinstance(listed, list) else []
    for name, attribute in _METRICS.items():
        value = _stored(row.attributes.get(attribute), METRICS[name].unit)
        if value is not None:
            source = Source.ESTIMATED if attribute in estimated else Source.MEASURED
            metrics[name] = MetricValue(value, source)
    return metrics


def _stored(value: object, unit: MetricUnit) -> int | None:
    """Return a value of a metric as a record has it; ``None`` if it is impossible."""
    if unit == "s":
        return seconds_as_ns(value)
    if isinstance(value, bool) or not isinstance(value, float | int):
        return None
    if unit == "1":
        return round(value) if 0 <= value <= MAX_NUMBER else None
    return round(value * BILLIONTHS) if 0 <= value <= 1 else None


def _marks(
    row: SpanRow, metrics: Mapping[str, MetricValue], segments: tuple[Segment, ...]
) -> dict[str, int]:
    marks: dict[str, int] = {Mark.START: 0}
    sent = [each.end_ns for each in segments if each.name == SegmentName.SEND]
    if sent:
        marks[Mark.SENT] = sent[-1]
    for name, mark in _MARKS.items():
        if name in metrics:
            marks[mark] = metrics[name].value
    marks[Mark.DONE] = row.end_ns - row.start_ns
    return marks


def _tokens(row: SpanRow) -> TokenCounts:
    counts = {
        name: value
        for name, attribute in _TOKENS.items()
        if (value := _stored(row.attributes.get(attribute), "1")) is not None
    }
    if not counts:
        return UNKNOWN_TOKENS
    source = str(row.attributes.get(semconv.LATSPAN_TOKEN_SOURCE, TokenSource.PROVIDER))
    known = source if source in set(TokenSource) else TokenSource.UNKNOWN
    return TokenCounts(**counts, source=TokenSource(known))


def _attributes(row: SpanRow) -> dict[str, str]:
    named = {name: semconv.SERIES_ATTRIBUTES[name] for name in _IDENTIFYING}
    return {
        name: str(row.attributes[attribute])
        for name, attribute in named.items()
        if attribute in row.attributes
    }


def _streamed(details: Mapping[str, object]) -> bool | None:
    stated = details.get(semconv.GEN_AI_REQUEST_STREAM)
    return stated if isinstance(stated, bool) else None


def _details(row: SpanRow) -> dict[str, Any]:
    details = details_of(row.attributes)
    # Readers look these up, and no list can be.
    for name in LOOKED_UP:
        if isinstance(details.get(name), list):
            del details[name]
    lag = details.get(semconv.LATSPAN_LOAD_DISPATCH_LAG)
    if isinstance(lag, int | float) and not abs(lag) <= _MAX_LAG_S:
        del details[semconv.LATSPAN_LOAD_DISPATCH_LAG]
    if row.is_written_by_latspan:
        return details
    return {
        name: value
        for name, value in details.items()
        if name in _DETAILS_OF_OTHERS or name.startswith(_ADDED)
    }
