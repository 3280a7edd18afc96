"""
Columns of the records of one kind, filled from many lines at a time.

A recording of a million requests is read in seconds only if no Python code runs per field of a
line. So lines are decoded in chunks, each field of a chunk becomes one list and each list one
array. Types and ranges are checked per list too. If a chunk fails a check, its lines are checked
one by one, and the unreadable ones are left out and counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import nan
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._model.censoring import open_gap_ns, waited_ns
from latspan._model.metrics import (
    DURATION,
    FIRST_TOKENS,
    FIRST_WAITS,
    LATENCY_METRICS,
    OF_PACE,
    TIME_TO_FIRST_TOKEN,
)
from latspan._model.segments import Kind, Outcome, Phase, Segment, SegmentName, Source
from latspan._study.table._growing import GrowingArray
from latspan._study.table._steps import StepColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

OUTCOMES: Final = tuple(Outcome)
SOURCES: Final = tuple(Source)
PHASES: Final = ("", Phase.WARMUP, Phase.MEASURED, Phase.DRAIN)
"""Phases of a load test by their code; the first one stands for every other value."""
MEASURED: Final = PHASES.index(Phase.MEASURED)
"""Code of the measured phase."""

MAX_GROUP_VALUES: Final = 40
"""Number of values above which an attribute identifies requests, and does not group them."""

_OUTCOME_CODES: Final = {outcome.value: code for code, outcome in enumerate(OUTCOMES)}
_SOURCE_CODES: Final = {source.value: code for code, source in enumerate(SOURCES)}
_PHASE_CODES: Final[dict[object, int]] = {phase: code for code, phase in enumerate(PHASES)}
_IS_INCOMPLETE: Final = np.array([outcome is not Outcome.COMPLETED for outcome in OUTCOMES])

_AFTER_LAST_TOKEN: Final = frozenset({SegmentName.STREAM_CLOSE, SegmentName.POSTPROCESS})

_CONNECTING: Final = frozenset({SegmentName.DNS, SegmentName.TCP, SegmentName.TLS})
"""Parts of the opening of a connection count as one segment, because one lever shortens all."""

_METRICS: Final = tuple(
    name for name, each in LATENCY_METRICS.items() if not each.distribution and name != DURATION
)
_COUNTS: Final = ("input", "cached", "output", "reasoning")
_DETAIL_NUMBERS: Final = {
    "attempts": semconv.LATSPAN_ATTEMPT_COUNT,
    "reused": semconv.LATSPAN_CONNECTION_REUSED,
    "kv_usage": semconv.LATSPAN_KV_USAGE,
    "requests_waiting": semconv.LATSPAN_REQUESTS_WAITING,
    "requests_running": semconv.LATSPAN_REQUESTS_RUNNING,
    "cache_hit_ratio": semconv.LATSPAN_CACHE_HIT_RATIO,
    "gc_s": semconv.LATSPAN_HOST_GC_DURATION,
    "major_faults": semconv.LATSPAN_HOST_MAJOR_FAULTS,
    "cpu_throttled_s": semconv.LATSPAN_HOST_CPU_THROTTLED,
    "dispatch_lag_s": semconv.LATSPAN_LOAD_DISPATCH_LAG,
    "application_before_s": semconv.LATSPAN_APPLICATION_BEFORE,
    "application_between_s": semconv.LATSPAN_APPLICATION_BETWEEN,
    "application_after_s": semconv.LATSPAN_APPLICATION_AFTER,
    "path_inferred_s": semconv.LATSPAN_PATH_INFERRED,
}
_ATTRIBUTES: Final = ("route", "model", "provider", "tenant", "traffic_class", "inference_path")
_DETAIL_TEXTS: Final = (semconv.GEN_AI_RESPONSE_MODEL, semconv.ERROR_TYPE)
_NOT_GROUPS: Final = ("latspan.", "gen_ai.", "openai.", "http.", "url.", "server.port")
"""Prefixes of details that are not properties by which applications group their requests."""

_HEADER: Final = semconv.HTTP_RESPONSE_HEADER_PREFIX
"""
Prefix of the details that name the replica, cache or gateway that answered. Their groups have the
name of the header.
"""

_TOGETHER: Final = 0.1
"""Fraction of the mean gap of a stream up to which two chunks arrive together."""

_STALL: Final = 5.0
"""Multiple of the median gap of a stream from which a gap is a stall."""


class Groups:
    """
    Values of one attribute as codes; -1 where a record does not have it.

    Args:
        max_values: Number of values above which the column is given up; ``None`` for no limit.
    """

    __slots__ = ("_codes", "_column", "max_values", "values")

    def __init__(self, max_values: int | None) -> None:
        self.max_values = max_values
        self._codes: dict[str | None, int] = {None: -1}
        self._column = GrowingArray(np.int32)
        self.values: list[str] = []
        """Values by code."""

    @property
    def is_given_up(self) -> bool:
        """Whether the attribute has too many values."""
        return self.max_values is not None and len(self.values) > self.max_values

    def add(self, before: int, texts: Sequence[str | None]) -> None:
        """Add the values of further records, after ``before`` records without a column."""
        if self.is_given_up:
            return
        if len(self._column) < before:
            self._column.extend(before - len(self._column), -1)
        codes = self._codes
        for text in dict.fromkeys(texts):
            if text is not None and text not in codes:
                codes[text] = len(self.values)
                self.values.append(text)
        self._column.append(np.fromiter(map(codes.__getitem__, texts), np.int32, len(texts)))
        if self.is_given_up:
            self._column = GrowingArray(np.int32)

    def column(self, size: int) -> NDArray[np.int32]:
        """Return the codes of ``size`` records."""
        if len(self._column) < size:
            self._column.extend(size - len(self._column), -1)
        return self._column.array()


class Columns:
    """
    Columns of all records of one kind.

    Args:
        kind: The kind.
        until: Metrics up to which the time of each segment is summed.
        attributes: Further attributes to keep, whatever the number of their values.
        gaps: Whether the median gap of each stream and its stalled time are kept.
        only: Metrics to keep, without facts, segments and other attributes; ``None`` to keep all.
    """

    def __init__(
        self,
        kind: Kind,
        until: Sequence[str] = (),
        attributes: Collection[str] = (),
        *,
        gaps: bool = False,
        only: Collection[str] | None = None,
    ) -> None:
        self.kind: Final = kind
        self.size = 0
        """Number of records."""
        self.until: Final = tuple(until)
        """Metrics up to which the time of each segment is summed."""
        self._attributes = frozenset(attributes)
        self._gaps = gaps
        self._only = None if only is None else FIRST_WAITS.union(only)
        self._columns: dict[str, GrowingArray] = {}
        self.groups: Final[dict[str, Groups]] = {}
        self.late: Final[set[str]] = set()
        """Attributes that a record got when the latency of a part of it was known already."""
        self.segment_names: Final[dict[str, int]] = {}
        """Number of each segment's column, by name."""
        self._segments: dict[str, list[GrowingArray]] = {each: [] for each in until}
        self._by_source: dict[str, NDArray[np.float64]] = {}
        self.steps: Final = StepColumns() if kind is Kind.REQUEST and only is None else None
        """Steps of requests with several calls; ``None`` for other kinds."""

    def add(self, rows: Sequence[Mapping[str, Any]], file: int = 0) -> None:
        """
        Add the columns of some rows.

        Args:
            rows: Fields of lines of one file that can be read, at least one.
            file: Number of the file; scopes are numbered per process.
        """
        self.late.update(*[row["late"] for row in rows if "late" in row])
        chunk = Chunk(rows, file, self.segment_names)
        if self._only is None:
            chunk.fill(self.until, self._attributes, gaps=self._gaps)
        else:
            chunk.fill_only(self._only, self._attributes)
        if self.steps is not None:
            self.steps.add(rows, self.size, self.segment_names)
        for name, values in chunk.texts.items():
            if name not in self.groups:
                kept = name in self._attributes
                self.groups[name] = Groups(None if kept else MAX_GROUP_VALUES)
            self.groups[name].add(self.size, values)
        for name, groups in self.groups.items():
            if name not in chunk.texts:
                groups.add(self.size, [None] * chunk.size)
        for name, part in chunk.columns.items():
            self._append(name, part)
        for metric, part in chunk.segments.items():
            self._append_segments(self._segments[metric], part)
            known = self._by_source.get(metric)
            added = chunk.by_source[metric]
            if known is not None:
                added[: len(known)] += known
            self._by_source[metric] = added
        self.size += chunk.size
        for name, column in self._columns.items():
            if name not in chunk.columns:
                column.extend(chunk.size, nan)

    def _append(self, name: str, part: NDArray[Any]) -> None:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = GrowingArray(
                part.dtype, self.size, nan if self.size else 0
            )
        column.append(part)

    def _append_segments(self, columns: list[GrowingArray], part: NDArray[np.float32]) -> None:
        while len(columns) < part.shape[1]:
            columns.append(GrowingArray(np.float32, self.size))
        for column, times in zip(columns, part.T, strict=False):
            column.append(times)
        for column in columns[part.shape[1] :]:
            column.extend(len(part), 0)

    def is_group(self, name: str) -> bool:
        """
        Return whether an attribute groups the records.

        It does not if it has too many values. An attribute that a record got late may follow from
        its latency, and groups them only if it was asked for.
        """
        is_late = name in self.late and name not in self._attributes
        return not (is_late or self.groups[name].is_given_up)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column; NaN for every record if none has a value."""
        column = self._columns.get(name)
        return np.full(self.size, nan) if column is None else column.array()

    def take(self, name: str) -> NDArray[Any]:
        """Return a column, and forget it."""
        column = self.column(name)
        self._columns.pop(name, None)
        return column

    def set(self, name: str, column: NDArray[Any]) -> None:
        """Replace a column, or add one."""
        replaced = self._columns[name] = GrowingArray(column.dtype)
        replaced.append(column)

    @property
    def names(self) -> list[str]:
        """Names of the columns that are left."""
        return list(self._columns)

    def segments(self, metric: str) -> NDArray[np.float32]:
        """Return the time of each segment up to a metric, and forget it, ``(n, segments)``."""
        columns = self._segments.pop(metric, [])
        joined = np.zeros((self.size, len(self.segment_names)), np.float32)
        for number in range(len(columns)):
            joined[:, number] = columns[number].array()
            columns[number] = GrowingArray(np.float32)
        return joined

    def by_source(self, metric: str) -> NDArray[np.float64]:
        """Return the summed time of each segment by source; shape ``(segments, sources)``."""
        found = np.zeros((len(self.segment_names), len(SOURCES)))
        known = self._by_source.get(metric)
        if known is not None:
            found[: len(known)] = known
        return found


class Chunk:
    """
    Columns of the records of one chunk.

    Args:
        rows: Lines as mappings.
        file: Number of their file.
        names: Number of each segment; new ones are added.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], file: int, names: dict[str, int]) -> None:
        self._rows = rows
        self._file = file
        self._names = names
        self.columns: Final[dict[str, NDArray[Any]]] = {}
        self.segments: Final[dict[str, NDArray[np.float32]]] = {}
        self.by_source: Final[dict[str, NDArray[np.float64]]] = {}
        self.texts: Final[dict[str, list[str | None]]] = {}
        self.size: Final = len(rows)
        self._details: list[Mapping[str, Any]] = [row.get("details", _NONE) for row in rows]
        self._given: list[Mapping[str, Any]] = [row.get("attributes", _NONE) for row in rows]

    def fill(self, until: Sequence[str], attributes: Collection[str], *, gaps: bool) -> None:
        """Fill the columns; see :class:`Columns`."""
        self._fill_fields()
        for name, key in (("scope_id", "id"), ("parent_id", "parent")):
            numbers = np.array([row.get(key, 0) for row in self._rows], np.int64)
            self.columns[name] = numbers + (numbers > 0) * (self._file * IDS_PER_FILE)
        self._fill_load()
        self._fill_metrics(_METRICS)
        self._fill_numbers()
        self._fill_chunks(gaps=gaps)
        self._fill_segments(until)
        self.columns["streamed"] = self._streamed()
        self.texts.update(self.group_texts(attributes))

    def fill_only(self, metrics: Collection[str], attributes: Collection[str]) -> None:
        """Fill the columns of some metrics."""
        self._fill_fields()
        self._fill_load()
        self._fill_metrics([name for name in _METRICS if name in metrics])
        self._fill_waits([row["segments"] for row in self._rows])
        self.columns["is_reported"] = np.zeros(self.size, np.bool_)
        self.columns["streamed"] = self._streamed()
        texts = self.group_texts(attributes) if attributes else ()
        self.texts.update((name, values) for name, values in texts if name in attributes)

    def _fill_fields(self) -> None:
        rows, columns = self._rows, self.columns
        columns["start_ns"] = np.array([row["start_epoch_ns"] for row in rows], np.int64)
        columns["duration_ns"] = np.array([row["duration_ns"] for row in rows], np.int64)
        columns["outcome"] = np.array([_OUTCOME_CODES[row["outcome"]] for row in rows], np.int8)
        columns["is_server"] = np.array([row.get("side") == "server" for row in rows], np.bool_)
        columns["weight"] = 1 / np.array([row.get("ratio", 1) for row in rows], np.float64)

    def _fill_load(self) -> None:
        """Fill what only the requests of a load test have."""
        lag = semconv.LATSPAN_LOAD_DISPATCH_LAG
        details, size = self._details, len(self._rows)
        lags = np.zeros(size)
        if any(lag in each for each in details):
            lags = np.nan_to_num(_floats([each.get(lag) for each in details]))
        # A request that is sent early has not waited.
        self.columns["lag_ns"] = np.maximum(np.round(lags * NS_PER_S), 0).astype(np.int64)
        phase = semconv.LATSPAN_LOAD_PHASE
        if any(phase in each for each in details):
            codes = [_PHASE_CODES.get(each.get(phase), 0) for each in details]
            self.columns["phase"] = np.array(codes, np.int8)
            steps = [each.get(semconv.LATSPAN_LOAD_STEP, 0) for each in details]
            whole = [each if type(each) is int and 0 <= each < 2**15 else 0 for each in steps]
            self.columns["step"] = np.array(whole, np.int16)
        else:
            self.columns["phase"] = np.zeros(size, np.int8)
            self.columns["step"] = np.zeros(size, np.int16)

    def _fill_metrics(self, names: Sequence[str]) -> None:
        metrics: list[Mapping[str, Any]] = [row.get("metrics", _NONE) for row in self._rows]
        present = _keys(metrics)
        for name in names:
            if name in present:
                values = [each.get(name) for each in metrics]
                self.columns[name] = _metric(values)
        if "buffered" in present:
            self.columns["buffered"] = _metric([each.get("buffered") for each in metrics])

    def _fill_numbers(self) -> None:
        details = self._details
        present = _keys(details)
        for name, key in _DETAIL_NUMBERS.items():
            if key in present:
                self.columns[name] = _floats([each.get(key) for each in details])
        tokens: list[Mapping[str, Any]] = [row.get("tokens") or _NONE for row in self._rows]
        for name in _COUNTS:
            counts = np.array([each.get(name) for each in tokens], np.float64)
            if not np.isnan(counts).all():
                self.columns[f"{name}_tokens"] = counts

    def _fill_chunks(self, *, gaps: bool) -> None:
        """Fill the number of chunks of each stream, and its gaps if they are wanted."""
        streams: list[Sequence[int]] = [row.get("chunk_gaps_ns") or () for row in self._rows]
        if any(streams):
            self.columns["chunks"] = np.array([len(each) + 1 for each in streams], np.float64)
            if gaps:
                self._fill_gaps(streams)

    def _fill_gaps(self, gaps: Sequence[Sequence[int]]) -> None:
        medians, stalled, clumped = ([nan] * len(gaps) for _ in range(3))
        for at, each in enumerate(gaps):
            if len(each) > 1:
                uncertain = self._rows[at].get("chunk_gap_sources")
                # A gap that ended while the application held the stream, or its loop was blocked,
                # is no evidence of how the stream was generated.
                measured = (
                    [gap for place, gap in enumerate(each) if str(place) not in uncertain]
                    if uncertain
                    else each
                )
                if len(measured) > 1:
                    ascending = sorted(measured)
                    medians[at], stalled[at] = _median_and_stalled(ascending)
                    together = _TOGETHER * sum(ascending) / len(ascending)
                    clumped[at] = bisect_right(ascending, together) / len(ascending)
        self.columns["chunk_gap_median"] = np.array(medians, np.float64)
        self.columns["stalled"] = np.array(stalled, np.float64)
        self.columns["clumped"] = np.array(clumped, np.float64)

    def _fill_segments(self, until: Sequence[str]) -> None:
        listed: list[Sequence[Sequence[Any]]] = [row["segments"] for row in self._rows]
        names, starts, ends, sources = _flat(listed)
        begin, end = np.array(starts, np.int64), np.array(ends, np.int64)
        shown = {
            name: SegmentName.CONNECT.value if name in _CONNECTING else name
            for name in dict.fromkeys(names)
        }
        for name in shown.values():
            self._names.setdefault(name, len(self._names))
        lag_ns = self.columns["lag_ns"]
        if lag_ns.any():
            self._names.setdefault(SegmentName.DISPATCH_LAG.value, len(self._names))
        number = {name: self._names[one] for name, one in shown.items()}
        place = np.fromiter(map(number.__getitem__, names), np.int64, len(names))
        source = np.fromiter(map(_SOURCE_CODES.__getitem__, sources), np.int64, len(names))
        row = np.repeat(np.arange(len(listed)), [len(each) for each in listed])
        width, size = len(self._names), len(listed)
        reported = np.zeros(size, np.bool_)
        reported[row[source == _SOURCE_CODES[Source.SERVER_REPORTED.value]]] = True
        self.columns["is_reported"] = reported
        queued = self._names.get(SegmentName.QUEUE.value)
        by_server = (place == queued) & (source == _SOURCE_CODES[Source.SERVER_REPORTED.value])
        if by_server.any():
            states = np.zeros(size)
            states[row[by_server]] = 1
            self.columns["queue_reported"] = states
        duration_ns = self.columns["duration_ns"]
        after = [self._names[name] for name in _AFTER_LAST_TOKEN if name in shown]
        loop = self._names.get(SegmentName.EVENT_LOOP.value)
        decode = self._names.get(SegmentName.DECODE.value)
        measured = _SOURCE_CODES[Source.MEASURED.value]
        for metric in until:
            limit = duration_ns.astype(np.float64)
            since = np.zeros(size)
            of_pace = metric in OF_PACE
            if of_pace:
                since = np.nan_to_num(self.columns.get(TIME_TO_FIRST_TOKEN, limit), nan=np.inf)
            elif metric != DURATION and metric in self.columns:
                value = self.columns[metric]
                limit = np.where(np.isnan(value), limit, value)
            length = np.clip(np.minimum(end, limit[row]) - np.maximum(begin, since[row]), 0, None)
            if of_pace:
                length[np.isin(place, after)] = 0
            into, known = place, source
            if metric in FIRST_TOKENS and loop is not None and decode is not None:
                # The server goes on while a block of the loop holds back the first token. Only the
                # block delays that token.
                blocks = (row[1:] == row[:-1]) & (place[1:] == loop) & (begin[1:] < limit[row[1:]])
                held = np.concatenate([blocks & (place[:-1] == decode), [False]])
                into, known = np.where(held, loop, place), np.where(held, measured, source)
            summed = np.bincount(row * width + into, length, size * width)
            times = summed.astype(np.float64).reshape(size, width)
            if of_pace:
                # The segments after the first token take part in proportion.
                times = _scaled(times, self.columns.get(metric))
            elif lag_ns.any():
                times[:, self._names[SegmentName.DISPATCH_LAG.value]] += lag_ns
            self.segments[metric] = times.astype(np.float32)
            by_source = np.bincount(into * len(SOURCES) + known, length, width * len(SOURCES))
            self.by_source[metric] = by_source.reshape(width, len(SOURCES)).astype(np.float64)
        self._fill_waits(listed)

    def _fill_waits(self, listed: Sequence[Sequence[Sequence[Any]]]) -> None:
        """Fill what requests had waited for when they were given up or failed."""
        outcomes: list[int] = self.columns["outcome"].tolist()
        incomplete = [at for at, code in enumerate(outcomes) if _IS_INCOMPLETE[code]]
        if not incomplete:
            return
        first = self.columns.get(TIME_TO_FIRST_TOKEN)
        gaps, waits = np.full(len(listed), nan), np.full(len(listed), nan)
        for at in incomplete:
            segments = [Segment(name, start, end) for name, start, end, _ in listed[at]]
            waits[at] = waited_ns(segments)
            if first is not None and not np.isnan(first[at]):
                gap_ns = open_gap_ns(
                    segments, OUTCOMES[outcomes[at]], first_token_ns=int(first[at])
                )
                gaps[at] = nan if gap_ns is None else gap_ns
        self.columns["waited_ns"], self.columns["open_gap_ns"] = waits, gaps

    def _streamed(self) -> NDArray[np.int8]:
        """Return 1 for streams, 0 for other responses, and -1 where that is unknown."""
        stated = [row.get("streamed") for row in self._rows]
        if None in stated:
            key = semconv.GEN_AI_REQUEST_STREAM
            stated = [
                each.get(key) if one is None else one
                for one, each in zip(stated, self._details, strict=True)
            ]
        codes = np.array([_STREAMED.get(each, -1) for each in stated], np.int8)
        # A first chunk alone does not show it: other instrumentations record no first token.
        for name in self.columns.keys() & set(FIRST_TOKENS):
            codes[(codes < 0) & ~np.isnan(self.columns[name])] = 1
        return codes

    def group_texts(self, attributes: Collection[str]) -> Iterator[tuple[str, list[str | None]]]:
        """Yield the attributes by which records may be grouped, and their values."""
        details, given = self._details, self._given
        present = _keys(given)
        in_details = _keys(details)
        headers = {
            name.removeprefix(_HEADER): name for name in in_details if name.startswith(_HEADER)
        }
        servers = semconv.SERVER_ADDRESS in in_details
        chosen = {
            name
            for name in in_details
            if name in attributes or name in _DETAIL_TEXTS or not name.startswith(_NOT_GROUPS)
        }
        names = [name for name in _ATTRIBUTES if name in present]
        names += sorted((chosen - {semconv.SERVER_ADDRESS}) - set(names))
        names += sorted(present.intersection(attributes) - set(names))
        for name in names:
            shown = _text if name in attributes else _shown
            own = [shown(each.get(name)) for each in details] if name in chosen else []
            if name in present:
                known: list[str | None] = [each.get(name) for each in given]
                # An application's own attribute replaces the one of the same name.
                pairs = zip(known, own or [None] * self.size, strict=True)
                own = [one if two is None else two for one, two in pairs]
            if any(each is not None for each in own):
                yield name, own
        for header in sorted(headers.keys() - set(names)):
            key = headers[header]
            values = [_joined(each.get(key)) for each in details]
            if any(each is not None for each in values):
                yield header, values
        if servers:
            yield semconv.SERVER_ADDRESS, [_address(each) for each in details]


_NONE: Final[Mapping[str, Any]] = {}
IDS_PER_FILE: Final = 2**48
_STREAMED: Final[dict[object, int]] = {True: 1, False: 0}


def _scaled(times: NDArray[np.float64], values: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the times of each row in proportion, so that they add up to its value."""
    if values is None:
        return np.zeros_like(times)
    totals = times.sum(axis=1)
    scale = np.nan_to_num(values) / np.where(totals > 0, totals, 1.0)
    return times * scale[:, np.newaxis]


def _keys(mappings: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return every key that occurs."""
    keys: set[str] = set()
    return keys.union(*mappings)


def _floats(values: Sequence[object]) -> NDArray[np.float64]:
    """Return numbers and truth values as numbers, NaN for anything else."""
    known = [float(each) if isinstance(each, int | float) else nan for each in values]
    return np.array(known, np.float64)


def _metric(values: Sequence[Any]) -> NDArray[np.float64]:
    """Return the values of a metric, which stand alone or with their source."""
    plain = [each if each is None or type(each) is int else each[0] for each in values]
    return np.array(plain, np.float64)


def _flat(listed: Sequence[Sequence[Sequence[Any]]]) -> tuple[list[Any], ...]:
    every = list(chain.from_iterable(listed))
    if not every:
        return [], [], [], []
    names, starts, ends, sources = zip(*every, strict=True)
    return list(names), list(starts), list(ends), list(sources)


def _median_and_stalled(gaps: Sequence[int]) -> tuple[float, float]:
    """Return the median of ascending gaps, and the time by which long gaps exceed it."""
    median = gaps[len(gaps) // 2]
    total = 0.0
    for gap in reversed(gaps):
        if gap <= _STALL * median:
            break
        total += gap - median
    return median, total


def _joined(value: object) -> str | None:
    """Return the values of a header, which was received once or several times."""
    if isinstance(value, list | tuple):
        listed = cast("Sequence[object]", value)
        return ", ".join([each for each in listed if isinstance(each, str)]) or None
    return _shown(value)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _shown(value: object) -> str | None:
    return str(value) if isinstance(value, str | bool) else None


def _address(details: Mapping[str, Any]) -> str | None:
    address = details.get(semconv.SERVER_ADDRESS)
    if not isinstance(address, str):
        return None
    return f"{address}:{details.get(semconv.SERVER_PORT)}"
