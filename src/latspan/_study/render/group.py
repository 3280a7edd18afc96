"""Groups of records that one part of a report is about: the requests, or the calls inside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from latspan._base.clock import SystemClock
from latspan._model.metrics import DURATION, TIME_TO_FIRST_TOKEN
from latspan._model.recording import Recorder, RequestRecord, Snapshot
from latspan._model.recording.folder import LineCounter, row_of_record
from latspan._model.segments import Kind, SegmentName, Side, Stage

_WITHOUT_CONTENT: Final = frozenset(
    (
        *(SegmentName.APPLICATION, SegmentName.UNATTRIBUTED),
        *(SegmentName.EVENT_LOOP, Stage.SEND_STREAM.value),
    )
)
"""Segments of a request in which the application made no call and named no stage."""


_MAX_NAMES: Final = 5
"""Number of names of requests that have tables of their own."""

_MAX_DISTINCT_NAMES: Final = 40
"""Number of names above which a name identifies a request, for example by its ID."""


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
        name: Name that all records share, or the number of their names; empty if it is not known.
        whole: Number of all records of the kind in words, if only some of them are complete and
            this group has those of one name; otherwise empty.
    """

    noun: str
    kind: Kind
    records: tuple[RequestRecord, ...]
    snapshot: Snapshot
    total: int
    left_out: int = 0
    is_live: bool = False
    name: str = ""
    whole: str = ""

    @property
    def heading(self) -> str:
        """Name and number, for example ``POST /ask: 80 served requests``."""
        among = f", among {self.whole}" if self.whole else ""
        return f"{self.name}: {self.number}{among}" if self.name else self.number

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

    def outcomes(self) -> Counter[str]:
        """Return how many values the table of segments has of each outcome."""
        outcomes: Counter[str] = Counter()
        for key, series in self.snapshot.series.items():
            if key.metric == DURATION and key.kind == self.kind and key.subject.outcome:
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
    total = snapshot.metric(DURATION, kind=Kind.CALL).count()
    return Group("call", Kind.CALL, records, snapshot, total, is_live=bool(snapshot.recorders))


def requests_in(snapshot: Snapshot) -> Group:
    """Return the requests of a snapshot that the application opened itself."""
    return _requests(snapshot, "request", Side.CLIENT)


def served_in(snapshot: Snapshot) -> Group:
    """Return the requests of a snapshot that its processes served."""
    return _requests(snapshot, "served request", Side.SERVER)


def by_name(group: Group) -> tuple[Group, ...]:
    """
    Return one group for each of the most frequent names, and one for all other names.

    Args:
        group: Requests. They stay together if each request has a name of its own.
    """
    names = Counter(record.name for record in group.records)
    if len(names) > _MAX_DISTINCT_NAMES:
        return (replace(group, name=f"{len(names):,} names"),)
    if len(names) < 2:
        return tuple(replace(group, name=name) for name in names) or (group,)
    shown = [name for name, _ in names.most_common(_MAX_NAMES)]
    groups = [_named(group, name, {name}) for name in shown]
    if others := names.keys() - set(shown):
        groups.append(_named(group, f"{len(others):,} more names", others))
    return tuple(groups)


def _named(group: Group, title: str, names: Collection[str]) -> Group:
    records = tuple(record for record in group.records if record.name in names)
    is_complete = len(group.records) == group.total
    return replace(
        group,
        records=records,
        snapshot=_whole(records),
        total=len(records),
        left_out=0,
        name=title,
        whole="" if is_complete else group.number,
    )


def _requests(snapshot: Snapshot, noun: str, side: Side) -> Group:
    records = _sorted(
        each for each in snapshot.records if each.kind is Kind.REQUEST and each.side is side
    )
    found = len(records)
    # A health check or a page of statistics would take over a report on inference.
    records = tuple(filter(_has_content, records)) or records
    # The table has the requests that are shown, and no others. In recordings of older releases, a
    # request counts only the time that its calls do not count; the table shows all of it.
    whole = _whole(records) if records else snapshot
    total = sum(
        series.histogram.count
        for key, series in snapshot.series.items()
        if (key.metric, key.kind, key.subject.side) == (DURATION, Kind.REQUEST, side)
    )
    left_out = found - len(records)
    is_live = bool(snapshot.recorders)
    return Group(noun, Kind.REQUEST, records, whole, total - left_out, left_out, is_live)


def _whole(records: Iterable[RequestRecord]) -> Snapshot:
    """
    Return the histograms of all segments of records, each of which counts for those it stands for.
    """
    records = [replace(record, reports=None) for record in records]
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
        or TIME_TO_FIRST_TOKEN in record.metrics
    )


def _sorted(records: Iterable[RequestRecord]) -> tuple[RequestRecord, ...]:
    return tuple(sorted(records, key=lambda record: record.start_epoch_ns))
