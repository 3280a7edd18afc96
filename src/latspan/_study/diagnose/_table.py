"""
Units of a recording as columns: one row per request, or per call if there are no requests.

A row has the goal metric, the time of each segment up to it, and facts on which rules depend. Calls
inside a request are not rows of their own: their segments are part of the request, so no time is
counted twice. The table is filled in one pass, and its memory is about 400 bytes per row.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from latspan import semconv
from latspan._metrics import FIRST_TOKENS
from latspan._recording import RequestRecord, has_no_token
from latspan._segments import Kind, Segment, SegmentName, Source
from latspan._study.diagnose._goal import DURATION, Goal

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Child", "RequestTable", "table_of"]

_DETAIL_NUMBERS: Final = {
    "attempts": semconv.LATSPAN_ATTEMPT_COUNT,
    "reused": semconv.LATSPAN_CONNECTION_REUSED,
    "kv_usage": semconv.LATSPAN_KV_USAGE,
    "requests_waiting": semconv.LATSPAN_REQUESTS_WAITING,
    "requests_running": semconv.LATSPAN_REQUESTS_RUNNING,
    "gc_s": semconv.LATSPAN_HOST_GC_DURATION,
    "major_faults": semconv.LATSPAN_HOST_MAJOR_FAULTS,
    "cpu_throttled_s": semconv.LATSPAN_HOST_CPU_THROTTLED,
    "dispatch_lag_s": semconv.LATSPAN_LOAD_DISPATCH_LAG,
}
_METRIC_NUMBERS: Final = (
    "time_to_first_token",
    "time_to_first_visible_token",
    "time_per_output_token",
    "chunk_gap_max",
    "stall_count",
    "buffered",
)
_TOKENS: Final = ("input", "cached", "output", "reasoning")
_TEXTS: Final = ("route", "model", "provider", "tenant", "traffic_class", "inference_path")
_DETAIL_TEXTS: Final = (semconv.GEN_AI_RESPONSE_MODEL, semconv.SERVER_ADDRESS)
_NOT_GROUPS: Final = (
    "latspan.",
    "gen_ai.",
    "openai.",
    "http.",
    "url.",
    "server.port",
    "error.type",
)
"""Prefixes of details that are no property by which an application groups its requests."""

_UNCERTAIN: Final = (Source.ESTIMATED, Source.UNKNOWN)

_STALL: Final = 5.0
"""Multiple of the median gap of a stream from which a gap is a stall."""

_CONNECTING: Final = frozenset({SegmentName.DNS, SegmentName.TCP, SegmentName.TLS})
"""
Parts of the opening of a connection. They count as one segment, because one lever shortens all.
"""

_MOST_VALUES: Final = 40
"""Number of values above which an attribute identifies requests, and does not group them."""
_PENDING: Final = 100_000
"""Number of open requests whose calls are kept, in case a request never ends."""


class Child(NamedTuple):
    """
    A call inside a request.

    Args:
        name: Name of its span.
        start_ns: Unix time of its start, in nanoseconds.
        end_ns: Unix time of its end, in nanoseconds.
        record: The record.
    """

    name: str
    start_ns: int
    end_ns: int
    record: RequestRecord


@dataclass(slots=True)
class RequestTable:
    """
    Columns of all units. Times are nanoseconds, NaN where a unit has no value.

    Args:
        goal: The goal.
        kind: Kind of the units.
        value_ns: Goal metric, from the scheduled time in a load test; shape ``(n,)``.
        failed: Whether the unit failed, or had no token where the goal is the first one; shape
            ``(n,)``.
        start_ns: Start as Unix time; shape ``(n,)``, in ascending order.
        duration_ns: Duration; shape ``(n,)``.
        names: Names of the segments.
        segments_ns: Time of each segment up to the goal metric; shape ``(n, len(names))``.
        uncertain: Fraction of each segment's time that is an estimate; shape ``(len(names),)``.
        sources: Source of most of the time of each segment.
        kinds: Kind of each stage, by its name.
        numbers: Facts as numbers, by name; shape ``(n,)`` each.
        groups: Attributes with few values: codes of shape ``(n,)``, and their values.
        chains: Number of calls of each request that ran one after another; shape ``(n,)``.
        earlier: Summed time of each earlier call in the tail, by name.
        left_out: Number of units that have no goal metric although they did not fail.
        reported: Fraction of the units for which a server or gateway reported times.
    """

    goal: Goal
    kind: Kind
    value_ns: NDArray[np.float64]
    failed: NDArray[np.bool_]
    start_ns: NDArray[np.int64]
    duration_ns: NDArray[np.float64]
    names: tuple[str, ...]
    segments_ns: NDArray[np.float64]
    uncertain: NDArray[np.float64]
    sources: Mapping[str, Source]
    kinds: Mapping[str, str]
    numbers: Mapping[str, NDArray[np.float64]]
    groups: Mapping[str, tuple[NDArray[np.int64], tuple[str, ...]]]
    chains: NDArray[np.int64]
    earlier: Mapping[str, NDArray[np.float64]] = field(default_factory=dict[str, Any])
    left_out: int = 0
    reported: float = 0.0

    def __len__(self) -> int:
        """Return the number of units, failed ones included."""
        return len(self.value_ns)

    def segment(self, *names: str) -> NDArray[np.float64]:
        """Return the summed time of some segments; zeros for those that do not occur."""
        found = [index for index, name in enumerate(self.names) if name in names]
        return self.segments_ns[:, found].sum(axis=1)

    def number(self, name: str) -> NDArray[np.float64]:
        """Return a fact; NaN for all units if it does not occur."""
        if name in self.numbers:
            return self.numbers[name]
        return np.full(len(self), nan)


def table_of(records: Iterable[RequestRecord], goal: Goal) -> RequestTable:
    """
    Return the units of some records.

    Args:
        records: Records of any kind and in any order, but calls and stages before the request that
            they are inside of, as recordings have them.
        goal: The goal. Without a kind, the units are requests if there are any.
    """
    fillers = {kind: _Filler(goal, kind) for kind in (Kind.REQUEST, Kind.CALL)}
    children: dict[int, list[Child]] = {}
    kinds: dict[str, str] = {}
    for record in records:
        inside = children.pop(record.scope_id, []) if record.scope_id else []
        if record.kind is Kind.REQUEST:
            if goal.kind is not Kind.CALL and (inside or record.side.value == "client"):
                fillers[Kind.REQUEST].add(record, inside)
            elif goal.kind is not Kind.CALL:
                fillers[Kind.REQUEST].add_without_calls(record)
            continue
        if record.kind is Kind.CALL:
            end_ns = record.start_epoch_ns + record.duration_ns
            inside = [Child(record.name, record.start_epoch_ns, end_ns, record)]
            if goal.kind is not Kind.REQUEST:
                fillers[Kind.CALL].add(record, inside)
        elif record.kind is Kind.STAGE:
            kinds[record.name] = str(record.details.get(semconv.LATSPAN_STAGE_KIND, record.name))
        if record.parent_id and inside:
            children.setdefault(record.parent_id, []).extend(inside)
            if len(children) > _PENDING:
                del children[next(iter(children))]
    requests = fillers[Kind.REQUEST]
    return (requests if len(requests) else fillers[Kind.CALL]).table(kinds)


class _Filler:
    """Collects the columns of units of one kind."""

    def __init__(self, goal: Goal, kind: Kind) -> None:
        self._goal = goal
        self._kind = kind
        self._values = array("d")
        self._failed = array("b")
        self._starts = array("q")
        self._durations = array("d")
        self._segments: dict[str, array[float]] = {}
        self._by_source = defaultdict[tuple[str, Source], float](float)
        self._numbers: dict[str, array[float]] = {}
        self._texts: dict[str, tuple[array[int], dict[str, int]]] = {}
        self._chains = array("q")
        self._earlier: dict[str, array[float]] = {}
        self._without_calls: list[RequestRecord] = []
        self._left_out = self._reported = 0

    def __len__(self) -> int:
        return len(self._values) or len(self._without_calls)

    def add_without_calls(self, record: RequestRecord) -> None:
        """Add a served request without a call, which counts only if no request has one."""
        if len(self._without_calls) < _PENDING:
            self._without_calls.append(record)

    def add(self, record: RequestRecord, inside: Sequence[Child]) -> None:
        """Add a unit with the calls inside it; of a call, that is the call itself."""
        lag_ns = _lag_ns(record)
        value_ns = _value_of(record, self._goal)
        # The user of a stream without a token waits for the first one forever.
        failed = record.outcome.failed or (
            value_ns is None
            and self._goal.metric in FIRST_TOKENS
            and any(has_no_token(child.record) for child in inside)
        )
        if value_ns is None and not failed:
            self._left_out += 1
            return
        row = len(self._values)
        until_ns = record.duration_ns if value_ns is None else value_ns
        self._values.append(nan if value_ns is None else value_ns + lag_ns)
        self._failed.append(failed)
        self._starts.append(record.start_epoch_ns)
        self._durations.append(record.duration_ns)
        if lag_ns:
            _at(self._segments, SegmentName.DISPATCH_LAG, row)[row] += lag_ns
        for name, start, end, source in record.segments:
            length = min(end, until_ns) - start
            if length <= 0:
                continue
            if name in _CONNECTING:
                _at(self._numbers, name, row)[row] += length
                name = SegmentName.CONNECT.value  # noqa: PLW2901
            _at(self._segments, name, row)[row] += length
            self._by_source[name, source] += length
        for name, value in _numbers_of(record, inside):
            _at(self._numbers, name, row, nan)[row] = value
        for name, text in _texts_of(record, inside):
            codes, values = self._texts.setdefault(name, (array("q"), {}))
            if len(values) <= _MOST_VALUES:
                _fill(codes, row + 1, -1)[row] = values.setdefault(text, len(values))
        self._chains.append(_sequential(inside))
        for child in sorted(inside, key=lambda child: child.start_ns)[:-1]:
            _at(self._earlier, child.name, row)[row] += child.end_ns - child.start_ns
        self._reported += any(
            segment.source is Source.SERVER_REPORTED for segment in record.segments
        )

    def table(self, kinds: Mapping[str, str]) -> RequestTable:
        """Return the columns, in the order of the starts."""
        if not len(self._values):
            for record in self._without_calls:
                self.add(record, ())
        size = len(self._values)
        starts = np.array(self._starts, dtype=np.int64)
        order = np.argsort(starts, kind="stable")
        names = tuple(self._segments)
        segments = np.zeros((size, len(names)))
        for index, name in enumerate(names):
            segments[:, index] = np.frombuffer(_fill(self._segments[name], size))[order]
        sums = segments.sum(axis=0) if size else np.zeros(len(names))
        return RequestTable(
            goal=self._goal,
            kind=self._kind,
            value_ns=_floats(self._values)[order],
            failed=np.array(self._failed, dtype=bool)[order],
            start_ns=starts[order],
            duration_ns=_floats(self._durations)[order],
            names=names,
            segments_ns=segments,
            uncertain=np.array(
                [
                    sum(self._by_source[name, source] for source in _UNCERTAIN) / total
                    if total
                    else 0.0
                    for name, total in zip(names, sums, strict=True)
                ]
            ),
            sources={
                name: max(Source, key=lambda source: self._by_source[name, source])
                for name in names
            },
            kinds={name: kinds[name] for name in names if name in kinds},
            numbers={
                name: np.frombuffer(_fill(column, size, nan))[order]
                for name, column in self._numbers.items()
            },
            groups={
                name: (np.array(_fill(codes, size, -1), dtype=np.int64)[order], tuple(values))
                for name, (codes, values) in self._texts.items()
                if 1 < len(values) <= _MOST_VALUES
            },
            chains=np.array(self._chains, dtype=np.int64)[order],
            earlier={
                name: np.frombuffer(_fill(column, size))[order]
                for name, column in self._earlier.items()
            },
            left_out=self._left_out,
            reported=self._reported / size if size else 0.0,
        )


def _floats(column: array[float]) -> NDArray[np.float64]:
    return np.frombuffer(column) if len(column) else np.empty(0)


def _fill(column: Any, size: int, default: float = 0) -> Any:
    """Extend a column by its default up to ``size`` rows, and return it."""
    if len(column) < size:
        column.extend([default] * (size - len(column)))
    return column


def _at(columns: dict[str, Any], name: str, row: int, default: float = 0.0) -> Any:
    """Return a column that has the row."""
    return _fill(columns.setdefault(str(name), array("d")), row + 1, default)


def _lag_ns(record: RequestRecord) -> float:
    lag = record.details.get(semconv.LATSPAN_LOAD_DISPATCH_LAG)
    return lag * 1e9 if isinstance(lag, float | int) and lag > 0 else 0.0


def _value_of(record: RequestRecord, goal: Goal) -> float | None:
    """Return the goal metric of a unit; ``None`` if it has none."""
    if goal.metric == DURATION:
        return None if record.outcome.failed else record.duration_ns
    metric = goal.metric
    if record.kind is Kind.REQUEST:
        # A request as a whole has only the time until its user sees something.
        metric = "time_to_first_visible_token"
    value = record.metrics.get(metric)
    return None if value is None else value.value


def _numbers_of(record: RequestRecord, inside: Sequence[Child]) -> Iterator[tuple[str, float]]:
    """Yield the facts of a unit; those of a request are those of its last call."""
    last = max(inside, key=lambda child: child.start_ns).record if inside else record
    for name in _METRIC_NUMBERS:
        value = last.metrics.get(name)
        if value is not None:
            yield name, value.value
    for name, detail in _DETAIL_NUMBERS.items():
        value = last.details.get(detail, record.details.get(detail))
        if isinstance(value, float | int):
            yield name, value
    for name in _TOKENS:
        counts = [getattr(child.record.tokens, name) for child in inside]
        known = [count for count in counts if count is not None]
        if known:
            yield f"{name}_tokens", sum(known)
    # A gap that ended while the application held the stream, or its loop was blocked, is no
    # evidence of how the stream was generated.
    gaps = sorted(gap.value for gap in last.chunk_gaps if gap.source is Source.MEASURED)
    if len(gaps) > 1:
        yield "chunk_gap_median", gaps[len(gaps) // 2]
        yield "stalled", _stalled_ns(gaps)
    sent = last.marks_ns.get("sent")
    headers = last.marks_ns.get("headers")
    if sent is not None and headers is not None:
        yield "until_headers", headers - sent
    yield "decode_ns", sum(_length(last.segments, SegmentName.DECODE))


def _stalled_ns(gaps: Sequence[float]) -> float:
    """Return the time by which long gaps exceed the median, of gaps in ascending order."""
    median = gaps[len(gaps) // 2]
    total = 0.0
    for gap in reversed(gaps):
        if gap <= _STALL * median:
            break
        total += gap - median
    return total


def _length(segments: Iterable[Segment], name: str) -> Iterator[int]:
    return (segment.duration_ns for segment in segments if segment.name == name)


def _texts_of(record: RequestRecord, inside: Sequence[Child]) -> Iterator[tuple[str, str]]:
    """Yield the attributes by which units may be grouped."""
    last = max(inside, key=lambda child: child.start_ns).record if inside else record
    attributes = {**last.attributes, **record.attributes}
    for name in _TEXTS:
        if name in attributes:
            yield name, attributes[name]
    for name in _DETAIL_TEXTS:
        value = last.details.get(name)
        if isinstance(value, str):
            port = last.details.get(semconv.SERVER_PORT)
            yield name, f"{value}:{port}" if name == semconv.SERVER_ADDRESS else value
    for name, value in {**last.details, **record.details}.items():
        is_text = isinstance(value, str | bool) and name not in _DETAIL_TEXTS
        if is_text and not name.startswith(_NOT_GROUPS):
            yield name, str(value)


def _sequential(inside: Sequence[Child]) -> int:
    """Return the largest number of calls of which each began after the previous one had ended."""
    count, free_at = 0, 0
    for child in sorted(inside, key=lambda child: child.end_ns):
        if child.start_ns >= free_at:
            count += 1
            free_at = child.end_ns
    return count
