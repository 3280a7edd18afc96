"""
Counting of lines in histograms, many lines at a time.

Lines of the same *form* have the same series: the same kind, labels, segments, metrics and tokens.
So each value of a form is one list, and each list is checked and counted at once, in a fifth of the
time of record after record. The first line of each form is counted in both ways; if they differ, or
a list fails a check, the lines are read one by one as records, which is the definition.

A line of a sample counts ``1 / ratio`` times. Histograms have whole counts, so the fractions of the
lines of one form add up, from a random start: a line counts one time more or less, its expected
count is exact, and so is the total of each form to within one.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from latspan._clock import SystemClock
from latspan._recording._recorder import Recorder
from latspan._recording._series import SeriesKey
from latspan._recording._values import keys_of, values_of
from latspan._recording.folder._lines import (
    LARGEST,
    UNREADABLE,
    check_details,
    record_of,
    row_of,
)
from latspan._segments import Outcome, Side
from latspan.histogram._numpy import PAYS_FROM, loaded_numpy

if TYPE_CHECKING:
    from latspan._recording._record import RequestRecord
    from latspan._recording._snapshot import Snapshot

__all__ = ["LineCounter"]

_BATCH: Final = 256
"""Number of lines that wait to be counted: few, so that garbage collections stay short."""

_MAX_WEIGHT: Final = 10_000
"""Maximum number of requests that a sampled line represents; a damaged line may state more."""

_TOKENS: Final = ("input", "cached", "output", "reasoning")
_COMPLETED: Final = Outcome.COMPLETED.value
_CLIENT: Final = Side.CLIENT.value
_NONE: Final[Mapping[str, Any]] = {}
_INTEGERS: Final = {int}
_TEXTS: Final = {str}
_IDS: Final = (("trace_id", 32), ("span_id", 16))
"""Identifiers and the number of their digits."""

_Row = Mapping[str, Any]
_Pair = tuple[bytes, _Row]


class LineCounter:
    """Counter of the lines of a recording."""

    def __init__(self) -> None:
        self._recorder = Recorder(SystemClock(), keep=0)
        self._decode = _decoder()
        self._waiting: defaultdict[object, list[_Pair]] = defaultdict(list)
        self._size = 0
        self._forms: dict[object, _Form | None] = {}
        self._rests: dict[object, float] = {}
        self._random = Random(0)  # noqa: S311 - a sample
        self.is_sampled = False
        """Whether a line stands for more than itself, as far as lines have been counted."""
        self.unreadable = 0
        """Number of lines that cannot be read, as far as lines have been counted."""

    def add(self, line: bytes) -> None:
        """Count a line, at the latest when a snapshot is taken."""
        try:
            row = self._decode(line)
            form = _form_of(row)
        except UNREADABLE:
            self._add_alone(line)
            return
        if form is None:
            self._add_alone(line)
            return
        self._waiting[form].append((line, row))
        self._size += 1
        if self._size >= _BATCH:
            self._count_waiting()

    def snapshot(self) -> Snapshot:
        """Return the histograms of all lines."""
        self._count_waiting()
        return self._recorder.snapshot()

    def _add_alone(self, line: bytes) -> None:
        try:
            record = record_of(line)
        except UNREADABLE:
            self.unreadable += 1
            return
        for _ in range(self._repeats(_labels_of(record), record.ratio)):
            self._recorder.record(record)

    def _repeats(self, labels: object, ratio: float) -> int:
        """Return how often a line counts."""
        if ratio >= 1:
            return 1
        self.is_sampled = True
        rest = self._rests.get(labels)
        if rest is None:
            rest = self._random.random()
        rest += min(1 / ratio, _MAX_WEIGHT)
        whole = math.floor(rest)
        self._rests[labels] = rest - whole
        return whole

    def _count_waiting(self) -> None:
        for form, pairs in self._waiting.items():
            if form not in self._forms:
                self._forms[form] = _Form.of(pairs[0])
            known = self._forms[form]
            values = None if known is None else _values_or_none(pairs)
            if known is None or values is None:
                for line, _ in pairs:
                    self._add_alone(line)
                continue
            ratios = [row.get("ratio", 1) for _, row in pairs]
            repeats = None
            if min(ratios) < 1:
                repeats = [self._repeats(known.labels, ratio) for ratio in ratios]
            self._recorder.count_values(known.by_series(values, pairs, repeats))
        self._waiting.clear()
        self._size = 0


def _decoder() -> Callable[[bytes], Any]:
    """Return a parser of lines: that of orjson, which takes a fifth of the time, if installed."""
    try:
        # Histograms count with numpy, of the same extra, if it is loaded.
        import numpy as np  # noqa: F401 # pyright: ignore[reportUnusedImport]
        import orjson
    except ImportError:
        return row_of
    return orjson.loads


def _labels_of(record: RequestRecord) -> object:
    return record.kind, record.side, record.outcome, tuple(record.attributes.items())


def _form_of(row: Any) -> object:
    """
    Return what decides on the series of a line; ``None`` if it must be read alone.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: The line is damaged.
    """
    if row["outcome"] != _COMPLETED:
        # It has lower bounds.
        return None
    if "chunk_gap_sources" in row:
        return None
    own = row.get("own_segments")
    segments = row["segments"] if own is None else own
    metrics: Mapping[str, Any] = row.get("metrics", _NONE)
    tokens: Mapping[str, Any] = row.get("tokens") or _NONE
    return (
        row["kind"],
        row.get("side", _CLIENT),
        tuple(row.get("attributes", _NONE).items()),
        tuple([each[0] for each in segments]),
        tuple([each[3] for each in segments]),
        tuple(
            [name if type(value) is int else (name, value[1]) for name, value in metrics.items()]
        ),
        tuple([name for name in _TOKENS if name in tokens]),
        tokens.get("source"),
        row.get("streamed"),
        own is None,
        "chunk_gaps_ns" in row,
    )


class _Form:
    """
    Series of the lines of one form.

    Args:
        record: Record of one of them.
        keys: Series of its single values.
        gap: Series of its gaps between chunks; ``None`` if it has none.
    """

    def __init__(
        self, record: RequestRecord, keys: Sequence[SeriesKey], gap: SeriesKey | None
    ) -> None:
        self.labels: Final = _labels_of(record)
        self._keys = keys
        self._gap = gap

    @classmethod
    def of(cls, pair: _Pair) -> _Form | None:
        """Return the form of a line; ``None`` if such lines must be read alone."""
        line, row = pair
        try:
            record = record_of(line)
        except UNREADABLE:
            return None
        shape, single, several = values_of(record)
        keys, of_several = keys_of(shape)
        found = _values_of([row])
        if (
            found is None
            or [column[0] for column in found.single] != single
            or len(of_several) > 1
            or list(chain(*several)) != found.gaps.tolist()
        ):
            return None
        return cls(record, keys, of_several[0] if of_several else None)

    def by_series(
        self, values: _Values, pairs: Sequence[_Pair], repeats: Sequence[int] | None
    ) -> Iterator[tuple[SeriesKey, list[int] | array[int]]]:
        """Yield the values of each series, those of a line as often as it counts."""
        for key, single in zip(self._keys, values.single, strict=True):
            column = single
            if repeats is not None:
                column = list(chain.from_iterable(map(repeat, single, repeats)))
            if column:
                yield key, column
        if self._gap is None:
            return
        every = values.gaps
        if repeats is not None:
            gaps: list[list[int]] = [row["chunk_gaps_ns"] for _, row in pairs]
            every = array("q", chain.from_iterable(chain.from_iterable(map(repeat, gaps, repeats))))
        if every:
            yield self._gap, every


class _Values(NamedTuple):
    """
    Values of lines of one form.

    Args:
        single: Values of each series that has one per line.
        gaps: Gaps between chunks of all lines.
    """

    single: list[list[int]]
    gaps: array[int]


def _values_or_none(pairs: Sequence[_Pair]) -> _Values | None:
    try:
        return _values_of([row for _, row in pairs])
    except UNREADABLE:
        return None


def _values_of(rows: Sequence[_Row]) -> _Values | None:
    """
    Return the values of lines of one form.

    ``None`` if a line is damaged, or has a form that is read alone.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: A line is damaged.
    """
    first = rows[0]
    is_whole = first.get("own_segments") is None
    every: list[Sequence[Any]] = [row["segments"] for row in rows]
    flat = list(chain.from_iterable(every))
    if not _are_segments(flat):
        return None
    reported = every if is_whole else [row["own_segments"] for row in rows]
    if not is_whole and not _are_segments(list(chain.from_iterable(reported))):
        return None
    columns = [[each[at][2] - each[at][1] for each in reported] for at in range(len(reported[0]))]
    durations = [row["duration_ns"] for row in rows]
    starts = [row["start_epoch_ns"] for row in rows]
    columns.append(durations)
    checked = [durations]
    names = first.get("metrics", _NONE)
    metrics = [row.get("metrics", _NONE) for row in rows]
    of_metrics: list[list[int]] = []
    for name, value in names.items():
        column = (
            [each[name] for each in metrics]
            if type(value) is int
            else [each[name][0] for each in metrics]
        )
        of_metrics.append(column)
        if name != "duration":
            columns.append(column)
    gaps = array("q")
    if is_whole:
        tokens = [row.get("tokens") or _NONE for row in rows]
        for name in _TOKENS:
            if name in tokens[0]:
                column = [each[name] for each in tokens]
                columns.append(column)
                checked.append(column)
        listed: list[int] = list(
            chain.from_iterable([row.get("chunk_gaps_ns", ()) for row in rows])
        )
        if not _are_integers(listed, 0):
            return None
        gaps = array("q", listed)
    marks = [row.get("marks_ns", _NONE).values() for row in rows]
    signed = [starts, *of_metrics, list(chain.from_iterable(marks))]
    numbers = [row.get(name, 0) for row in rows for name in ("id", "parent")]
    if not all(_are_integers(each, 0) for each in (*checked, numbers)):
        return None
    if not all(_are_integers(each, -LARGEST) for each in signed):
        return None
    if set(map(type, [row["name"] for row in rows])) != _TEXTS:
        return None
    for row in rows:
        check_details(row)
        for name, digits in _IDS:
            if name in row and (len(row[name]) > digits or int(row[name], 16) < 0):
                return None
    return _Values(columns, gaps)


def _are_integers(values: Sequence[Any], least: int) -> bool:
    return _integers(values, least) is not None


def _integers(values: Sequence[Any], least: int) -> array[int] | None:
    """Return numbers as an array; ``None`` if one has another type or range."""
    if values and set(map(type, values)) != _INTEGERS:
        return None
    try:
        held = array("q", values)
    except OverflowError:
        return None
    numpy = loaded_numpy()
    if numpy is None or len(values) < PAYS_FROM:
        lowest, highest = min(held, default=least), max(held, default=least)
    else:
        # Without a copy.
        numbers = numpy.frombuffer(held, numpy.int64)
        lowest, highest = numbers.min(), numbers.max()
    return held if lowest >= least and highest <= LARGEST else None


def _are_segments(flat: Sequence[Sequence[Any]]) -> bool:
    if not flat:
        return True
    names, starts, ends, _ = zip(*flat, strict=True)
    return (
        set(map(type, names)) == _TEXTS
        and _are_integers(starts, 0)
        and _are_integers(ends, 0)
        and all(map(int.__le__, starts, ends))
    )
