"""Recorder that is used while latspan is not configured; it discards everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan._recording._empty_reason import NOT_CONFIGURED
from latspan._recording._snapshot import Snapshot

if TYPE_CHECKING:
    from latspan._recording._record import RequestRecord

__all__ = ["NoopRecorder"]


class NoopRecorder:
    """
    Recorder with the interface of :class:`Recorder` that returns only empty snapshots.

    Args:
        empty_reason: Why nothing is recorded, as in a snapshot.
    """

    __slots__ = ("_empty_reason",)

    def __init__(self, empty_reason: str = NOT_CONFIGURED) -> None:
        self._empty_reason = empty_reason

    def record(self, record: RequestRecord) -> None:
        """Discard one finished request."""

    def snapshot(self) -> Snapshot:
        """Return an empty snapshot, at the epoch."""
        return Snapshot(
            series={}, start_epoch_ns=0, end_epoch_ns=0, empty_reason=self._empty_reason
        )

    def swap_interval(self) -> Snapshot:
        """Return an empty snapshot, at the epoch."""
        return self.snapshot()
