"""Groups of records that one part of a report is about: the requests, or the calls inside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from latspan._clock import SystemClock
from latspan._recording import Recorder, RequestRecord, Snapshot
from latspan._recording.folder import LineCounter, row_of_record
from latspan._segments import Kind, SegmentName, Side, Stage

__all__ = ["Group", "calls_in", "requests_in", "served_in"]

_WITHOUT_CONTENT: Final = frozenset(
    (SegmentName.UNATTRIBUTED, SegmentName.EVENT_LOOP, Stage.SEND_STREAM.value)
)
"""Segments of a request in which the application made no call and named no stage."""


@dataclass(frozen=True, slots=True)
class Group:
    """
    Records of one kind, with the histograms of the same kind.

    Args:
        noun: Word for one of them: ``call``, ``request`` or ``served request``.
        kind: Their kind.
        records: Complete records, in the order in which they began.
        snapshot: Histograms of their segments and metrics.
        total: Number of all that were recorded; more than the records if only the latest are kept.
        left_out: Number of requests without a call and without a stage. If other requests have
            some, these are neither in the records nor in the total.
        is_live: Whether they are of a running program, not of a recording.
    """

    noun: str
    kind: Kind
    records: tuple[RequestRecord, ...]
    snapshot: Snapshot
    total: int
    left_out: int = 0
    is_live: bool = False

    def segment_names(self) -> tuple[str, ...]:
        """Return the names of their segments, ordered by the mean of where they first begin."""
        starts: dict[str, list[int]] = {}
        for record in self.records:
            seen: set[str] = set()
            for segment in record.segments:
                if segment.name not in seen:
                    seen.add(segment.name)
                    starts.setdefault(segment.name, []).append(segment.start_ns)
        return tuple(sorted(starts, key=lambda name: fmean(starts[name])))

    @property
    def has_own_unattributed_time(self) -> bool:
        """Whether time outside all calls and stages of a request is ``unattributed``."""
        return self.kind is Kind.REQUEST and any(
            segment.name == SegmentName.UNATTRIBUTED
            for record in self.records
            for segment in (record.segments if record.reports is None else record.reports)
        )

    def outcomes(self) -> Counter[str]:
        """Return how many values the table of segments has of each outcome."""
        outcomes: Counter[str] = Counter()
        for key, series in self.snapshot.series.items():
            if key.metric == "duration" and key.kind == self.kind and key.subject.outcome:
                outcomes[key.subject.outcome] += series.histogram.count
        return outcomes

    @property
    def number(self) -> str:
        """Number of records in words, for example ``the latest 100 of 250 calls``."""
        kept, total = len(self.records), max(self.total, len(self.records))
        nouns = self.noun if total == 1 else f"{self.noun}s"
        if kept == total:
            return f"{kept:,} {nouns}"
        # A program keeps the latest records; a recording has a sample of them.
        which = "the latest " if self.is_live else ""
        return f"{which}{kept:,} of {total:,} {nouns}"


def calls_in(snapshot: Snapshot) -> Group:
    """Return the calls of a snapshot, as recorded by their client."""
    records = _sorted(
        each for each in snapshot.records if each.kind is Kind.CALL and each.side is Side.CLIENT
    )
    # Not `snapshot.count`, which logs why a snapshot is empty: a report shows the reason itself.
    total = snapshot.metric("duration", kind=Kind.CALL).count()
    return Group("call", Kind.CALL, records, snapshot, total, is_live=bool(snapshot.recorders))


def requests_in(snapshot: Snapshot) -> Group:
    """Return the requests of a snapshot that the application opened itself."""
    return _requests(snapshot, "request", Side.CLIENT)


def served_in(snapshot: Snapshot) -> Group:
    """Return the requests of a snapshot that its processes served."""
    return _requests(snapshot, "served request", Side.SERVER)


def _requests(snapshot: Snapshot, noun: str, side: Side) -> Group:
    records = _sorted(
        each for each in snapshot.records if each.kind is Kind.REQUEST and each.side is side
    )
    found = len(records)
    # A health check or a page of statistics would take over a report on inference.
    records = tuple(filter(_has_content, records)) or records
    # A request counts only the time that its calls do not count. Its own table shows all of it, so
    # the histograms are made of the records, if there are any.
    whole = snapshot
    if records:
        whole = _counted([replace(record, reports=None) for record in records])
    total = sum(
        series.histogram.count
        for key, series in snapshot.series.items()
        if (key.metric, key.kind, key.subject.side) == ("duration", Kind.REQUEST, side)
    )
    left_out = found - len(records)
    is_live = bool(snapshot.recorders)
    return Group(noun, Kind.REQUEST, records, whole, total - left_out, left_out, is_live)


def _counted(records: Sequence[RequestRecord]) -> Snapshot:
    """Return the histograms of records, each of which counts for those that it stands for."""
    if any(record.ratio < 1 for record in records):
        counter = LineCounter()
        counter.add(map(row_of_record, records))
        return counter.snapshot()
    recorder = Recorder(SystemClock(), keep=None)
    for record in records:
        recorder.record(record)
    return recorder.snapshot()


def _has_content(record: RequestRecord) -> bool:
    """Return whether a request contains a call or a stage, or generated tokens itself."""
    return (
        any(segment.name not in _WITHOUT_CONTENT for segment in record.segments)
        or record.tokens.output is not None
        or "time_to_first_token" in record.metrics
    )


def _sorted(records: Iterable[RequestRecord]) -> tuple[RequestRecord, ...]:
    return tuple(sorted(records, key=lambda record: record.start_epoch_ns))
