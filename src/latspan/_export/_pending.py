"""What an outlet was given and could not deliver yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

from latspan._recording import SeriesKey, Snapshot

__all__ = ["Unsent"]


class Unsent:
    """Intervals that are still to be delivered, as one. Not thread-safe."""

    __slots__ = ("_snapshot",)

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None

    def joined_by(self, interval: Snapshot) -> Snapshot:
        """Return everything that is to be delivered, now that an interval more is."""
        snapshot = interval if self._snapshot is None else self._snapshot.merge(interval)
        self._snapshot = snapshot
        return snapshot

    def delivered(self, keys: Iterable[SeriesKey]) -> None:
        """Note that some of the series were taken."""
        if self._snapshot is not None:
            taken = set(keys)
            left = {k: series for k, series in self._snapshot.series.items() if k not in taken}
            self._snapshot = replace(self._snapshot, series=MappingProxyType(left))

    def all_delivered(self) -> None:
        """Note that nothing is left."""
        self._snapshot = None
