"""Values that an interval exporter has received and not delivered yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

from latspan._recording import Series, SeriesKey, Snapshot
from latspan._slices import give_way

__all__ = ["Unsent"]


class Unsent:
    """Undelivered intervals, merged into one snapshot. Not thread-safe."""

    __slots__ = ("_delivered", "_snapshot")

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._delivered: set[SeriesKey] = set()
        """Series of the snapshot that were delivered."""

    def joined_by(self, interval: Snapshot) -> Snapshot:
        """Merge ``interval`` into the pending snapshot and return it."""
        if self._snapshot is None:
            self._snapshot = interval
        else:
            self._snapshot = self._left_of(self._snapshot).merge(interval)
        self._delivered = set()
        return self._snapshot

    def delivered(self, keys: Iterable[SeriesKey]) -> None:
        """Remove delivered series from the pending snapshot."""
        if self._snapshot is not None:
            self._delivered.update(keys)

    def all_delivered(self) -> None:
        """Clear the pending snapshot after everything was delivered."""
        self._snapshot, self._delivered = None, set()

    def _left_of(self, snapshot: Snapshot) -> Snapshot:
        left: dict[SeriesKey, Series] = {}
        for key, series in snapshot.series.items():
            if key not in self._delivered:
                left[key] = series
            give_way()
        return replace(snapshot, series=MappingProxyType(left))
