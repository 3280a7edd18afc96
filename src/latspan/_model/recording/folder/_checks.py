"""
Checks of decoded lines: which lines can be read.

Every reader uses these checks, so that all of them leave out the same lines. Many lines are checked
at once, column after column: that takes a third of the time of line after line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import le
from typing import Any, Final

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._model.segments import Kind, Outcome, Side, Source
from latspan._model.tokens import TokenSource

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

MAX_NUMBER: Final = 2**62
"""Largest time, count or other number in a line: the sum of any two fits into 64 bits."""

MIN_RATIO: Final = 1e-9
"""Fraction below which a line is damaged: it would stand for more than a billion requests."""

LOOKED_UP: Final = (
    semconv.LATSPAN_LOAD_INDEX,
    semconv.LATSPAN_LOAD_PHASE,
    semconv.LATSPAN_LOAD_STEP,
)
"""Details that readers look up."""

_MAX_LAG_S: Final = MAX_NUMBER / NS_PER_S
_CHECKED_DETAILS: Final = frozenset({semconv.LATSPAN_LOAD_DISPATCH_LAG, *LOOKED_UP})
_KINDS: Final = frozenset(map(str, Kind))
_OUTCOMES: Final = frozenset(map(str, Outcome))
_SIDES: Final = frozenset(map(str, Side))
_SOURCES: Final = frozenset(map(str, Source))
_TOKEN_SOURCES: Final = frozenset(map(str, TokenSource))
_TRACE_ID_BITS: Final = 128
_SPAN_ID_BITS: Final = 64

_TEXT: Final = frozenset({str})
_TRUTH: Final = frozenset({bool})
_LIST: Final = frozenset({list})
_WHOLE: Final = frozenset({int})
"""Type of whole numbers; a truth value is not one, although Python treats it as an integer."""
_NUMBER: Final = frozenset({int, float})

_Row = Mapping[str, Any]


def check_rows(rows: Sequence[_Row]) -> None:
    """
    Check that the fields of decoded lines have the types and ranges of the schema.

    Args:
        rows: Decoded lines.

    Raises:
        ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError: A line is
            damaged.
    """
    _check_numbers([row["start_epoch_ns"] for row in rows], -MAX_NUMBER)
    _check_numbers([row["duration_ns"] for row in rows])
    _check_types([row["name"] for row in rows], _TEXT)
    _check_members([row["kind"] for row in rows], _KINDS)
    _check_members([row["outcome"] for row in rows], _OUTCOMES)
    _check_members([row["side"] for row in rows if "side" in row], _SIDES)
    _check_types([row["streamed"] for row in rows if "streamed" in row], _TRUTH)
    for name in ("id", "parent"):
        _check_numbers([row[name] for row in rows if name in row])
    _check_segments([row["segments"] for row in rows])
    _check_segments([row["own_segments"] for row in rows if row.get("own_segments") is not None])
    with_steps = [row for row in rows if "steps" in row]
    if with_steps:
        _check_steps(with_steps)
    _check_metrics([row["metrics"].values() for row in rows if "metrics" in row])
    _check_gaps(rows)
    marks = [row["marks_ns"].values() for row in rows if "marks_ns" in row]
    _check_numbers(list(chain.from_iterable(marks)), -MAX_NUMBER)
    _check_tokens([row["tokens"] for row in rows if row.get("tokens") is not None])
    attributes = [row["attributes"].values() for row in rows if "attributes" in row]
    # Joining raises if one of them is not a text.
    "".join(chain.from_iterable(attributes))
    _check_late([row["late"] for row in rows if "late" in row])
    _check_details([row["details"] for row in rows if "details" in row])
    _check_ids([row["trace_id"] for row in rows if "trace_id" in row], _TRACE_ID_BITS)
    _check_ids([row["span_id"] for row in rows if "span_id" in row], _SPAN_ID_BITS)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    _check_types(ratios, _NUMBER)
    if ratios and not MIN_RATIO <= min(ratios) <= max(ratios) <= 1:
        raise ValueError("a ratio is out of range")


def _check_types(values: Iterable[object], allowed: frozenset[type]) -> None:
    if not allowed.issuperset(map(type, values)):
        raise TypeError("a field has another type")


def _check_members(values: Iterable[str], allowed: frozenset[str]) -> None:
    if not allowed.issuperset(values):
        raise ValueError("a field has an unknown value")


def _check_numbers(values: Sequence[int], minimum: int = 0) -> None:
    if not values:
        return
    _check_types(values, _WHOLE)
    if min(values) < minimum or max(values) > MAX_NUMBER:
        raise ValueError("a number is out of range")


def _check_segments(listed: Sequence[Sequence[Sequence[Any]]]) -> None:
    _check_types(listed, _LIST)
    flat = list(chain.from_iterable(listed))
    if not flat:
        return
    # Anything but a list would have texts as its starts.
    names, starts, ends, sources = zip(*flat, strict=True)
    _check_types(names, _TEXT)
    _check_members(sources, _SOURCES)
    _check_types(starts, _WHOLE)
    _check_types(ends, _WHOLE)
    if min(starts) < 0 or max(ends) > MAX_NUMBER or not all(map(le, starts, ends)):
        raise ValueError("a segment has another range")


def _check_steps(rows: Sequence[_Row]) -> None:
    _check_types([row["steps"] for row in rows], _LIST)
    names, kinds, starts, ends, parents, merged = zip(
        *chain.from_iterable(row["steps"] for row in rows), strict=True
    )
    _check_types(names, _TEXT)
    _check_members(kinds, _KINDS)
    for numbers in (starts, [end for end in ends if end is not None], parents, merged):
        _check_numbers(numbers)
    for row in rows:
        steps_of_segments, count = row["segment_steps"], len(row["steps"])
        _check_numbers(steps_of_segments)
        if len(steps_of_segments) != len(row["segments"]) or max(steps_of_segments) > count:
            raise ValueError("a segment has an unknown step")
        if any(step[4] > count for step in row["steps"]):
            raise ValueError("a step is in an unknown step")


def _check_metrics(listed: Iterable[Iterable[Any]]) -> None:
    values = list(chain.from_iterable(listed))
    numbers = [each for each in values if type(each) is int]
    if len(numbers) < len(values):
        pairs = [each for each in values if type(each) is not int]
        _check_types(pairs, _LIST)
        of_pairs, sources = zip(*pairs, strict=True)
        _check_members(sources, _SOURCES)
        numbers += of_pairs
    _check_numbers(numbers, -MAX_NUMBER)


def _check_gaps(rows: Sequence[_Row]) -> None:
    gaps = [row["chunk_gaps_ns"] for row in rows if row.get("chunk_gaps_ns") is not None]
    _check_types(gaps, _LIST)
    _check_numbers(list(chain.from_iterable(gaps)))
    for row in rows:
        if row.get("chunk_gap_sources"):
            _check_members(row["chunk_gap_sources"].values(), _SOURCES)


def _check_tokens(tokens: Sequence[Mapping[str, Any]]) -> None:
    _check_members([each["source"] for each in tokens], _TOKEN_SOURCES)
    values = list(chain.from_iterable([each.values() for each in tokens]))
    counts = [each for each in values if type(each) is not str]
    if len(values) - len(counts) != len(tokens):
        raise TypeError("a number of tokens is a text")
    _check_numbers(counts)


def _check_late(listed: Sequence[Sequence[object]]) -> None:
    _check_types(listed, _LIST)
    _check_types(chain.from_iterable(listed), _TEXT)


def _check_details(listed: Sequence[Mapping[str, Any]]) -> None:
    if all(map(_CHECKED_DETAILS.isdisjoint, [each.keys() for each in listed])):
        return
    for details in listed:
        lag = details.get(semconv.LATSPAN_LOAD_DISPATCH_LAG)
        if isinstance(lag, int | float) and not -_MAX_LAG_S <= lag <= _MAX_LAG_S:
            raise ValueError("the dispatch lag is out of range")
        for name in LOOKED_UP:
            if isinstance(details.get(name), list | dict):
                raise TypeError(f"{name} has another type")


def _check_ids(ids: Sequence[str], bits: int) -> None:
    for text in ids:
        number = int(text, 16)
        if number < 0 or number.bit_length() > bits:
            raise ValueError("an id is too long")
