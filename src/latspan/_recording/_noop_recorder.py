"""The recorder of a latspan that is not configured: it forgets everything at once."""

from __future__ import annotations

from latspan._recording._record import RequestRecord
from latspan._recording._snapshot import Snapshot

__all__ = ["NoopRecorder"]


class NoopRecorder:
    """Takes what :class:`Recorder` takes, and has only empty snapshots to give."""

    __slots__ = ()

    def record(self, record: RequestRecord) -> None:
        """Forget one finished request."""

    def snapshot(self) -> Snapshot:
        """Return a snapshot of nothing, at the epoch."""
        return Snapshot(series={}, start_epoch_ns=0, end_epoch_ns=0)

    def swap_interval(self) -> Snapshot:
        """Return a snapshot of nothing, at the epoch."""
        return self.snapshot()
