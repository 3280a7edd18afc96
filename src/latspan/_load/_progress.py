"""
Answers to the requests of a measurement, and their running account for a live display.

An answer has only what the load runner needs; the results come from the recording.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from latspan._model.segments import Outcome, Phase
from latspan.histogram import Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """
    How one request ended.

    Args:
        outcome: How it ended.
        duration_ns: Nanoseconds from its start to its end.
        first_token_ns: Nanoseconds from its start to its first token; ``None`` if there was none,
            or if this is not known.
        status: HTTP status; ``None`` if there was no response.
        error: The exception that ended it.
        error_body: First bytes of the body of an error status.
    """

    outcome: Outcome
    duration_ns: int
    first_token_ns: int | None = None
    status: int | None = None
    error: BaseException | None = None
    error_body: bytes = b""


class Progress:
    """
    Running account of one step.

    Args:
        total: Number of requests to be measured; ``None`` if it is not known.
    """

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self.phase = Phase.WARMUP
        self.in_flight = 0
        self.measured = 0
        """Number of measured requests that have ended."""
        self.failures: Counter[Outcome] = Counter()
        """Measured requests that did not complete, by outcome."""
        self.duration = Histogram()
        """Durations of completed measured requests from schedule, in nanoseconds."""
        self.first_token = Histogram()
        """Times to the first token from schedule, in nanoseconds."""

    def started(self, phase: Phase) -> None:
        """Count a request that begins."""
        self.in_flight += 1
        self.phase = phase

    def ended(self, phase: Phase, answer: RequestResult | None, lag_ns: int) -> None:
        """
        Count a request that has ended.

        Args:
            phase: Its phase.
            answer: How it ended; ``None`` if the runner cancelled it.
            lag_ns: Its dispatch lag.
        """
        self.in_flight -= 1
        if phase is not Phase.MEASURED or answer is None:
            return
        self.measured += 1
        if answer.outcome is not Outcome.COMPLETED:
            self.failures[answer.outcome] += 1
            return
        self.duration.record(answer.duration_ns + lag_ns)
        if answer.first_token_ns is not None:
            self.first_token.record(answer.first_token_ns + lag_ns)
