"""
Counting of lines in histograms, many lines at a time.

Lines of the same *form* have the same series: the same kind, labels, segments, metrics and tokens.
So each value of a form is one list, and each list is counted at once, in a fifth of the time of
record after record. The values of the first line of each form are taken in both ways; if they
differ, the lines are read one by one as records, which is the definition.

A line of a sample counts ``1 / ratio`` times. Histograms have whole counts, so the fractions of the
lines of one form add up, from a random start: a line counts one time more or less, its expected
count is exact, and so is the total of each form to within one.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from latspan import semconv
from latspan._base.clock import SystemClock
from latspan._model.metrics import DURATION
from latspan._model.recording._recorder import Recorder
from latspan._model.recording._series import SeriesKey
from latspan._model.recording._values import keys_of, values_of
from latspan._model.recording.folder._lines import record_of_row
from latspan._model.segments import Outcome, Side

if TYPE_CHECKING:
    from latspan._model.recording._record import RequestRecord
    from latspan._model.recording._snapshot import Snapshot

_MAX_WEIGHT: Final = 10_000
"""Maximum number of requests that a sampled line represents; a damaged line may state more."""

_TOKENS: Final = ("input", "cached", "output", "reasoning")
_COMPLETED: Final = Outcome.COMPLETED.value
_CLIENT: Final = Side.CLIENT.value
_NONE: Final[Mapping[str, Any]] = {}
_STREAMED: Final = semconv.GEN_AI_REQUEST_STREAM
_NAME_AND_SOURCE: Final = itemgetter(0, 3)
_Row = Mapping[str, Any]


class LineCounter:
    """Counter of the lines of a recording."""

    def __init__(self) -> None:
        self._recorder = Recorder(SystemClock(), keep=0)
        self._forms: dict[object, _Form | None] = {}
        self._rests: dict[object, float] = {}
        self._random = Random(0)  # noqa: S311 - a sample
        self.is_sampled = False
        """Whether a line stands for more than itself, as far as lines have been counted."""

    def add(self, rows: Iterable[_Row]) -> None:
        """
        Count lines.

        Args:
            rows: Fields of lines that can be read.
        """
        by_form: defaultdict[object, list[_Row]] = defaultdict(list)
        for row in rows:
            by_form[_form_of(row)].append(row)
        for form, alike in by_form.items():
            if form not in self._forms:
                self._forms[form] = None if form is None else _Form.of(alike[0])
            known = self._forms[form]
            if known is None:
                for row in alike:
                    self._add_alone(row)
                continue
            ratios = [row.get("ratio", 1) for row in alike]
            counted = alike
            if min(ratios) < 1:
                repeats = [self._repeats(known.labels, ratio) for ratio in ratios]
                counted = list(chain.from_iterable(map(repeat, alike, repeats)))
            if counted:
                self._recorder.count_values(known.by_series(counted))

    def snapshot(self) -> Snapshot:
        """Return the histograms of all lines."""
        return self._recorder.snapshot()

    def _add_alone(self, row: _Row) -> None:
        record = record_of_row(row)
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


def _labels_of(record: RequestRecord) -> object:
    return record.kind, record.side, record.outcome, tuple(record.attributes.items())


def _form_of(row: _Row) -> object:
    """Return what decides on the series of a line; ``None`` if it must be read alone."""
    if row["outcome"] != _COMPLETED:
        # It has lower bounds.
        return None
    if "chunk_gap_sources" in row:
        return None
    own = row.get("own_segments")
    segments = row["segments"] if own is None else own
    metrics: Mapping[str, Any] = row.get("metrics", _NONE)
    tokens: Mapping[str, Any] = row.get("tokens") or _NONE
    types = tuple(map(type, metrics.values()))
    sources: Any = types
    if types.count(int) < len(types):
        sources = tuple([type(each) is int or each[1] for each in metrics.values()])
    return (
        row["kind"],
        row.get("side", _CLIENT),
        tuple(row.get("attributes", _NONE).items()),
        tuple(map(_NAME_AND_SOURCE, segments)),
        tuple(metrics),
        sources,
        tuple(tokens),
        tokens.get("source"),
        row["streamed"] if "streamed" in row else row.get("details", _NONE).get(_STREAMED),
        own is None,
        bool(row.get("chunk_gaps_ns")),
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
    def of(cls, row: _Row) -> _Form | None:
        """Return the form of a line; ``None`` if such lines must be read alone."""
        record = record_of_row(row)
        shape, single, several = values_of(record)
        keys, of_several = keys_of(shape)
        found = _values_of([row])
        if (
            [column[0] for column in found.single] != single
            or len(of_several) > 1
            or list(chain(*several)) != found.gaps.tolist()
        ):
            return None
        return cls(record, keys, of_several[0] if of_several else None)

    def by_series(self, rows: Sequence[_Row]) -> Iterator[tuple[SeriesKey, list[int] | array[int]]]:
        """Yield the values of each series of lines of this form, at least one."""
        values = _values_of(rows)
        yield from zip(self._keys, values.single, strict=True)
        if self._gap is not None and values.gaps:
            yield self._gap, values.gaps


class _Values(NamedTuple):
    """
    Values of lines of one form.

    Args:
        single: Values of each series that has one per line.
        gaps: Gaps between chunks of all lines.
    """

    single: list[list[int]]
    gaps: array[int]


def _values_of(rows: Sequence[_Row]) -> _Values:
    """Return the values of lines of one form."""
    first = rows[0]
    is_whole = first.get("own_segments") is None
    name = "segments" if is_whole else "own_segments"
    # Lines of one form have the same segments in the same order.
    width = len(first[name])
    single: list[list[int]] = []
    if width:
        flat = chain.from_iterable([row[name] for row in rows])
        _, starts, ends, _ = zip(*flat, strict=True)
        lengths = list(map(int.__sub__, ends, starts))
        single += [lengths[at::width] for at in range(width)]
    single.append([row["duration_ns"] for row in rows])
    metrics = [row.get("metrics", _NONE) for row in rows]
    for metric, value in metrics[0].items():
        if metric == DURATION:
            continue
        is_alone = type(value) is int
        single.append([each[metric] if is_alone else each[metric][0] for each in metrics])
    if not is_whole:
        return _Values(single, array("q"))
    tokens = [row.get("tokens") or _NONE for row in rows]
    single += [[each[count] for each in tokens] for count in _TOKENS if count in tokens[0]]
    gaps = chain.from_iterable([row.get("chunk_gaps_ns") or () for row in rows])
    # An array of a list takes half the time of an array of an iterator.
    return _Values(single, array("q", list(gaps)))
