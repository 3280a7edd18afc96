"""A call that is given up before its response ends in the segment in which it waited."""

from __future__ import annotations

import pytest

from latspan._model.segments import Outcome, SegmentName
from latspan._model.timeline import Attempt, CallObservation, call_timeline


def _segments(
    outcome: Outcome, *, end_ns: int | None, error: str | None, is_cancelled: bool = False
) -> list[tuple[str, int]]:
    attempt = Attempt(
        start_ns=10,
        phase=SegmentName.SERVER_WAIT,
        pool_acquired_ns=20,
        sent_ns=30,
        end_ns=end_ns,
        error_type=error,
        is_cancelled=is_cancelled,
    )
    seen = CallObservation(start_ns=0, done_ns=1_000, outcome=outcome, attempts=[attempt])
    return [(each.name, each.duration_ns) for each in call_timeline(seen).segments]


def test_a_call_that_is_open_at_the_end_waits_until_the_end() -> None:
    """At shutdown, the attempt has not ended: its wait is the server's, and no own work."""
    assert _segments(Outcome.ABANDONED, end_ns=None, error=None)[-1] == ("server_wait", 970)


@pytest.mark.parametrize(
    "error", ["asyncio.exceptions.CancelledError", "trio.Cancelled", "KeyboardInterrupt"]
)
def test_a_cancelled_attempt_is_followed_by_no_retry(error: str) -> None:
    """The cancellation ended the attempt itself."""
    found = _segments(Outcome.CANCELLED, end_ns=990, error=error, is_cancelled=True)
    assert found[-2:] == [("server_wait", 960), ("postprocess", 10)]


def test_a_call_that_is_cancelled_while_it_backs_off_is_left_in_its_retry() -> None:
    """The attempt had failed with a status before."""
    assert _segments(Outcome.CANCELLED, end_ns=500, error="500")[-1] == ("retry", 500)
