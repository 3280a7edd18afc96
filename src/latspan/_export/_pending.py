"""Values that an interval exporter has received and not delivered yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

from latspan._recording import SeriesKey, Snapshot

__all__ = ["Unsent"]


class Unsent:
    """Undelivered intervals, merged into one snapshot. Not thread-safe."""

    __slots__ = ("_snapshot",)

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None

    def joined_by(self, interval: Snapshot) -> Snapshot:
        """Merge ``interval`` into the pending snapshot and return it."""
        snapshot = interval if self._snapshot is None else self._snapshot.merge(interval)
        self._snapshot = snapshot
        return snapshot

    def delivered(self, keys: Iterable[SeriesKey]) -> None:
        """Remove delivered series from the pending snapshot."""
        if self._snapshot is not None:
            taken = set(keys)
            left = {k: series for k, series in self._snapshot.series.items() if k not in taken}
            self._snapshot = replace(self._snapshot, series=MappingProxyType(left))

    def all_delivered(self) -> None:
        """Clear the pending snapshot after everything was delivered."""
        self._snapshot = None
