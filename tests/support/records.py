"""Records for tests that do not depend on their contents."""

from __future__ import annotations

from typing import Final

from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import RequestRecord, Segment

RECORD: Final = RequestRecord(
    name="x",
    kind=Kind.CALL,
    outcome=Outcome.COMPLETED,
    start_epoch_ns=0,
    duration_ns=1_000,
    segments=(Segment("queue", 0, 1_000),),
)
"""A call of one microsecond, all of it in the queue."""
