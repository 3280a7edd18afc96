"""
Lines of a recording: a finished request as one line of JSON, and back.

The schema is ``docs/reference/recording-1.schema.json``. Fields that have their default are
omitted. A reader ignores unknown fields, so a later release may add some.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from latspan import semconv
from latspan._metrics import MetricValue
from latspan._recording._record import RequestRecord
from latspan._segments import Kind, Outcome, Segment, Side, Source
from latspan._tokens import UNKNOWN_TOKENS, TokenCounts, TokenSource
from latspan._units import NS_PER_S
from latspan._wire import written

__all__ = [
    "LARGEST",
    "LOOKED_UP",
    "MIN_RATIO",
    "UNREADABLE",
    "check_details",
    "check_row",
    "compact_line",
    "line_of",
    "record_of",
    "row_of",
    "row_of_record",
]

UNREADABLE: Final = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""Exceptions of a line that is cut off, or that another program wrote."""

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
    if record.details:
        fields["details"] = record.details
    if record.reports is not None:
        fields["own_segments"] = record.reports
    if record.trace_id:
        fields["trace_id"] = f"{record.trace_id:032x}"
        fields["span_id"] = f"{record.span_id:016x}"
    if ratio < 1:
        fields["ratio"] = ratio
    return fields


LARGEST: Final = 2**62
"""Largest time, count or other number in a line: the sum of any two fits into 64 bits."""

_LONGEST_LAG_S: Final = LARGEST / NS_PER_S


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


_decode: Final = json.JSONDecoder(parse_constant=_refuse).decode
"""Parser of a line; ``json.loads`` would accept NaN and infinity."""


def row_of(line: str | bytes) -> dict[str, Any]:
    """
    Return the fields of a line; those that columns use have the types and ranges of the schema.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, RecursionError: As :func:`record_of`.
    """
    text = line if isinstance(line, str) else line.decode("utf-8", "surrogatepass")
    fields: dict[str, Any] = _decode(text)
    check_row(fields)
    return fields


def check_row(fields: Mapping[str, Any]) -> None:
    """
    Check that the fields that columns use have the types and ranges of the schema.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, RecursionError: As :func:`record_of`.
    """
    start_ns, duration_ns = fields["start_epoch_ns"], fields["duration_ns"]
    if (
        type(start_ns) is not int
        or type(duration_ns) is not int
        or not -LARGEST <= start_ns <= LARGEST
        or not 0 <= duration_ns <= LARGEST
        or type(fields["name"]) is not str
        or fields["kind"] not in _KINDS
        or fields["outcome"] not in _OUTCOMES
    ):
        raise ValueError("a field has another type or range")
    _check_segments(fields["segments"])
    if "metrics" in fields:
        _check_metrics(fields["metrics"].values())
    check_details(fields)
    if fields.get("tokens") is not None:
        for name, count in fields["tokens"].items():
            if (type(count) is not int or not 0 <= count <= LARGEST) and name != "source":
                raise ValueError("a number of tokens has another type or range")


def check_details(fields: Mapping[str, Any]) -> None:
    """
    Check attributes, details, ratio and ``streamed``, which have no values for histograms.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, RecursionError: As :func:`record_of`.
    """
    if "attributes" in fields:
        # Joining raises if one of them is not a text.
        "".join(fields["attributes"].values())
    if "details" in fields:
        lag = fields["details"].get(semconv.LATSPAN_LOAD_DISPATCH_LAG)
        if isinstance(lag, int | float) and not -_LONGEST_LAG_S <= lag <= _LONGEST_LAG_S:
            raise ValueError("the dispatch lag is out of range")
        for name in LOOKED_UP:
            if isinstance(fields["details"].get(name), list | dict):
                raise TypeError(f"{name} has another type")
    if "ratio" in fields:
        ratio = fields["ratio"]
        if type(ratio) not in _NUMBERS or not MIN_RATIO <= ratio <= 1:
            raise ValueError("the ratio has another type or range")
    if type(fields.get("streamed", True)) is not bool:
        raise ValueError("streamed is neither true nor false")


LOOKED_UP: Final = (
    semconv.LATSPAN_LOAD_INDEX,
    semconv.LATSPAN_LOAD_PHASE,
    semconv.LATSPAN_LOAD_STEP,
)
"""Details that readers look up."""

MIN_RATIO: Final = 1e-9
"""Fraction below which a line is damaged: it would stand for more than a billion requests."""

_NUMBERS: Final = (int, float)
"""Types of numbers; a boolean is not one, although Python treats it as an integer."""


def _check_other(fields: Mapping[str, Any]) -> None:
    """Check the fields that only records have."""
    gaps_ns = fields.get("chunk_gaps_ns")
    # Three passes of C code take half the time of one loop.
    if gaps_ns and (
        set(map(type, gaps_ns)) != _ONLY_INTEGERS or min(gaps_ns) < 0 or max(gaps_ns) > LARGEST
    ):
        raise ValueError("a gap has another type or range")
    if "marks_ns" in fields:
        for instant_ns in fields["marks_ns"].values():
            if type(instant_ns) is not int or not -LARGEST <= instant_ns <= LARGEST:
                raise ValueError("a mark has another type or range")
    if fields.get("own_segments") is not None:
        _check_segments(fields["own_segments"])
    for name in ("id", "parent"):
        if name in fields and (type(fields[name]) is not int or not 0 <= fields[name] <= LARGEST):
            raise ValueError("the number of a scope has another type or range")


_ONLY_INTEGERS: Final = {int}


def _check_segments(rows: Iterable[tuple[str, int, int, str]]) -> None:
    for name, start_ns, end_ns, _ in rows:
        if (
            type(start_ns) is not int
            or type(end_ns) is not int
            or type(name) is not str
            or not 0 <= start_ns <= end_ns <= LARGEST
        ):
            raise ValueError("a segment has another type or range")


def _check_metrics(values: Iterable[object]) -> None:
    for value in values:
        number: object = value
        if isinstance(value, list):
            number, _ = cast("list[object]", value)
        if type(number) is not int or not -LARGEST <= number <= LARGEST:
            raise ValueError("a metric has another type or range")


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
    fields = row_of(line)
    _check_other(fields)
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
        trace_id=_id(fields.get("trace_id", "0"), 128),
        span_id=_id(fields.get("span_id", "0"), 64),
        reports=None if own is None else _segments(own),
        marks_ns=fields.get("marks_ns", {}),
        scope_id=scope_id and before + scope_id,
        parent_id=parent_id and before + parent_id,
        ratio=fields.get("ratio", 1.0),
        details=fields.get("details", {}),
        streamed=fields.get("streamed"),
    )


def _id(text: str, bits: int) -> int:
    number = int(text, 16)
    if number < 0 or number.bit_length() > bits:
        raise ValueError("an id is too long")
    return number


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
    gaps_ns = fields.get("chunk_gaps_ns", ())
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
