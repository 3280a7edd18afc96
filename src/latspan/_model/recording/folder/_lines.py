"""
Lines of a recording: a finished request as one line of JSON, and back.

The schema is ``docs/reference/recording-2.schema.json``. Fields that have their default are
omitted. A reader ignores unknown fields, so a later release may add some.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from latspan._model.metrics import MetricValue
from latspan._model.recording._record import RequestRecord
from latspan._model.recording.folder._checks import check_rows
from latspan._model.segments import Kind, Outcome, Segment, Side, Source, Step
from latspan._model.tokens import UNKNOWN_TOKENS, TokenCounts, TokenSource
from latspan._model.wire import written

_MEASURED: Final = Source.MEASURED
_TOKEN_SOURCES: Final = {source.value: source for source in TokenSource}
_SOURCES: Final = {source.value: source for source in Source}
_KINDS: Final = {kind.value: kind for kind in Kind}
_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}
"""Mappings, because calling an enumeration takes ten times as long."""

_new: Final[Any] = cast("Any", tuple).__new__
"""Makes a named tuple in a third of the time of its class; a recording has millions of them."""

_COUNTS: Final = tuple(name for name in TokenCounts._fields if name != "source")


def row_of_record(record: RequestRecord) -> dict[str, Any]:
    """Return the fields of the line of a record, with the fraction that the record states."""
    fields = _fields_of(record, record.ratio)
    # A line has plain texts; a record may name its segments by members of an enumeration.
    fields["segments"] = [
        (str(name), start_ns, end_ns, str(source))
        for name, start_ns, end_ns, source in record.segments
    ]
    return fields


def line_of(record: RequestRecord, ratio: float = 1.0) -> str:
    """
    Return a record as one line of JSON, with its line end.

    Args:
        record: The record.
        ratio: Fraction of the records that is being kept, in (0, 1].
    """
    return written(_fields_of(record, ratio)) + "\n"


def _fields_of(record: RequestRecord, ratio: float) -> dict[str, object]:
    fields: dict[str, object] = {
        "kind": record.kind,
        "name": record.name,
        "outcome": record.outcome,
        "start_epoch_ns": record.start_epoch_ns,
        "duration_ns": record.duration_ns,
        "segments": record.segments,
    }
    if record.side is not Side.CLIENT:
        fields["side"] = record.side
    if record.scope_id:
        fields["id"] = record.scope_id
    if record.parent_id:
        fields["parent"] = record.parent_id
    if record.streamed is not None:
        fields["streamed"] = record.streamed
    if record.metrics:
        fields["metrics"] = {
            name: value if source is _MEASURED else (value, source)
            for name, (value, source) in record.metrics.items()
        }
    if record.chunk_gaps:
        fields["chunk_gaps_ns"] = [gap_ns for gap_ns, _ in record.chunk_gaps]
        uncertain = {
            str(position): source
            for position, (_, source) in enumerate(record.chunk_gaps)
            if source is not _MEASURED
        }
        if uncertain:
            fields["chunk_gap_sources"] = uncertain
    if record.marks_ns:
        fields["marks_ns"] = record.marks_ns
    if record.tokens != UNKNOWN_TOKENS:
        fields["tokens"] = {
            name: value for name, value in record.tokens._asdict().items() if value is not None
        }
    if record.attributes:
        fields["attributes"] = record.attributes
    if record.late:
        fields["late"] = record.late
    if record.details:
        fields["details"] = record.details
    if record.reports is not None:
        fields["own_segments"] = record.reports
    if record.steps:
        fields["steps"] = record.steps
        fields["segment_steps"] = record.segment_steps
    if record.trace_id:
        fields["trace_id"] = f"{record.trace_id:032x}"
        fields["span_id"] = f"{record.span_id:016x}"
    if ratio < 1:
        fields["ratio"] = ratio
    return fields


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


_decode: Final = json.JSONDecoder(parse_constant=_refuse).decode
"""Parser of a line; ``json.loads`` would accept NaN and infinity."""


def row_of(line: str | bytes) -> dict[str, Any]:
    """
    Return the fields of a line, which have the types and ranges of the schema.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, RecursionError: As :func:`record_of`.
    """
    text = line if isinstance(line, str) else line.decode("utf-8", "surrogatepass")
    fields: dict[str, Any] = _decode(text)
    check_rows((fields,))
    return fields


def compact_line(line: bytes) -> bytes:
    """
    Return a line as :func:`line_of` forms it, if another program wrote it in another form.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, RecursionError: As :func:`record_of`.
    """
    if line.startswith(_BEGIN):
        return line
    fields = row_of(line)
    return f"{written({'kind': fields['kind'], **fields})}\n".encode()


_BEGIN: Final = b'{"kind":"'


def record_of(line: str | bytes, before: int = 0) -> RequestRecord:
    """
    Return the record of a line.

    Args:
        line: The line.
        before: Number to add to the numbers of scopes, which are unique in a process only.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, RecursionError: The line is cut off, or is
            not one of a recording.
    """
    return record_of_row(row_of(line), before)


def record_of_row(fields: Mapping[str, Any], before: int = 0) -> RequestRecord:
    """
    Return the record of a line whose fields were checked; see :func:`record_of`.

    Args:
        fields: The fields of the line.
        before: Number to add to the numbers of scopes.
    """
    own = fields.get("own_segments")
    scope_id, parent_id = fields.get("id", 0), fields.get("parent", 0)
    return RequestRecord(
        name=fields["name"],
        kind=_KINDS[fields["kind"]],
        side=Side(fields.get("side", Side.CLIENT)),
        outcome=_OUTCOMES[fields["outcome"]],
        start_epoch_ns=fields["start_epoch_ns"],
        duration_ns=fields["duration_ns"],
        segments=_segments(fields["segments"]),
        metrics={name: _value(value) for name, value in fields.get("metrics", {}).items()},
        chunk_gaps=_gaps(fields),
        tokens=_tokens(fields.get("tokens")),
        attributes=fields.get("attributes", {}),
        trace_id=int(fields.get("trace_id", "0"), 16),
        span_id=int(fields.get("span_id", "0"), 16),
        reports=None if own is None else _segments(own),
        marks_ns=fields.get("marks_ns", {}),
        scope_id=scope_id and before + scope_id,
        parent_id=parent_id and before + parent_id,
        ratio=fields.get("ratio", 1.0),
        details=fields.get("details", {}),
        streamed=fields.get("streamed"),
        late=tuple(fields.get("late", ())),
        steps=tuple([_step(step) for step in fields.get("steps", ())]),
        segment_steps=tuple(fields.get("segment_steps", ())),
    )


def _step(fields: tuple[str, str, int, int | None, int, int]) -> Step:
    name, kind, start_ns, end_ns, parent, merged = fields
    return Step(name, _KINDS[kind], start_ns, end_ns, parent, merged)


def _segments(rows: Iterable[tuple[str, int, int, str]]) -> tuple[Segment, ...]:
    return tuple(
        [_new(Segment, (name, start, end, _SOURCES[source])) for name, start, end, source in rows]
    )


def _value(value: int | tuple[int, str]) -> MetricValue:
    if isinstance(value, int):
        return _new(MetricValue, (value, _MEASURED))
    number, source = value
    return MetricValue(number, _SOURCES[source])


def _gaps(fields: Mapping[str, Any]) -> tuple[MetricValue, ...]:
    gaps_ns = fields.get("chunk_gaps_ns") or ()
    uncertain = fields.get("chunk_gap_sources")
    if not uncertain:
        return tuple([_new(MetricValue, (gap_ns, _MEASURED)) for gap_ns in gaps_ns])
    return tuple(
        MetricValue(gap_ns, _SOURCES[uncertain.get(str(position), _MEASURED.value)])
        for position, gap_ns in enumerate(gaps_ns)
    )


def _tokens(fields: Mapping[str, Any] | None) -> TokenCounts:
    if fields is None:
        return UNKNOWN_TOKENS
    return TokenCounts(
        **{name: fields[name] for name in _COUNTS if name in fields},
        source=_TOKEN_SOURCES[fields["source"]],
    )
