"""
Snapshots in log files: each interval of a file is one snapshot, each tag one series.

A file has no records, no exemplars and no start time per series; the start of the interval is used
as the start of its series.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from latspan._base.slices import give_way
from latspan._model.recording._series import ATTRIBUTES, Series, SeriesKey, add_series, key_of
from latspan._model.recording._snapshot import Snapshot
from latspan._model.recording._tags import read_tag, tag_of
from latspan._model.segments import Kind
from latspan.errors import HistogramPrecisionError
from latspan.histogram import (
    FULL_PRECISION,
    Histogram,
    HistogramLog,
    HistogramLogWriter,
    LoggedInterval,
    read_log,
)

_MAX_NOTES: Final = 10
"""Number of truncated intervals of a log that are listed one by one."""

_KINDS: Final = frozenset(Kind)


def write_interval(writer: HistogramLogWriter, snapshot: Snapshot) -> None:
    """
    Append a snapshot to a histogram log as one interval.

    Args:
        writer: Writer of the log.
        snapshot: Snapshot of one interval. The intervals of a log must not overlap, or values count
            twice.

    Raises:
        HistogramFormatError: A tag or a count cannot be written.
        HistogramWriteError: The file could not be written.
    """
    histograms: dict[str, Histogram] = {}
    for key, series in snapshot.series.items():
        histograms[tag_of(key.metric, key.attributes)] = series.histogram
        give_way()
    writer.write(snapshot.start_epoch_ns, snapshot.end_epoch_ns, histograms)


def read_snapshots(path: str | os.PathLike[str]) -> Iterator[Snapshot]:
    """
    Yield the snapshots of a histogram log in the order of the file.

    A tag that another program wrote becomes the name of a metric; lines without a tag become the
    metric ``untagged``. An interval that a killed writer left incomplete is skipped;
    :func:`latspan.histogram.read_log` reports it.

    Args:
        path: The file.

    Raises:
        HistogramFormatError: A line is damaged, or the file is not a log.
        HistogramPrecisionError: Values were written with less precision than latspan's own,
            which a snapshot cannot represent.
        OSError: The file cannot be read.
    """
    return snapshots_of(read_log(path))


def snapshots_of(log: HistogramLog) -> Iterator[Snapshot]:
    """
    Yield the snapshots of a histogram log; see :func:`read_snapshots`.

    Args:
        log: The log. Afterwards, it has the intervals that were left incomplete.
    """
    return map(_snapshot_of, log)


def truncated_in(log: HistogramLog) -> Iterator[str]:
    """Yield a note on each interval that was left incomplete in a log that was read."""
    for each in log.truncated[:_MAX_NOTES]:
        yield f"{log.path}: {each}."
    more = len(log.truncated) - _MAX_NOTES
    if more > 0:
        yield f"{log.path}: {more:,} more truncated intervals were left out."


def _snapshot_of(interval: LoggedInterval) -> Snapshot:
    held: dict[SeriesKey, Series] = {}
    for tag, histogram, precision in interval.series:
        if precision != FULL_PRECISION:
            raise HistogramPrecisionError(
                f"values of {tag or 'an untagged line'} were written with {precision}",
                hint="read them with latspan histogram show, which shows the precision",
            )
        series = Series(histogram, interval.start_epoch_ns, interval.end_epoch_ns)
        add_series(held, _key_of(tag), series)
    return Snapshot(
        series=MappingProxyType(held),
        start_epoch_ns=interval.start_epoch_ns,
        end_epoch_ns=interval.end_epoch_ns,
    )


def _key_of(tag: str | None) -> SeriesKey:
    named = read_tag(tag)
    kind = named.attributes.get("kind")
    # A tag that latspan wrote has a kind; only such a tag may have attributes of an application. A
    # tag without a kind is read in the same way if latspan knows all its attributes.
    is_latspans = kind in _KINDS if kind is not None else ATTRIBUTES.issuperset(named.attributes)
    if is_latspans:
        return key_of(named.metric, named.attributes)
    return key_of(tag or named.metric, {})
