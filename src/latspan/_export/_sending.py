"""One message on its way through an exporter of the SDK's, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from latspan._export._export_errors import Delivery, ExportErrors
from latspan._log import logger

if TYPE_CHECKING:
    from latspan._export._http_session import HttpSession

__all__ = ["Sending", "SpanAnswer"]

_PASSING: Final = {
    "CANCELLED",
    "DEADLINE_EXCEEDED",
    "RESOURCE_EXHAUSTED",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNAVAILABLE",
    "DATA_LOSS",
}
"""
After which the same is to be sent again.

Source: OTLP specification 1.9, "Failures".
"""

_TOO_LARGE_OVER_GRPC: Final = "RESOURCE_EXHAUSTED"
"""The answer to a message above gRPC's limit, and that of a receiver that has too much to do."""


class SpanAnswer(NamedTuple):
    """
    What became of a message.

    Args:
        taken: Whether the receiver has it.
        again: Whether it is to be sent again, where it was not taken.
        asked_s: How long the receiver asked to be left alone, in seconds; 0 where it did not.
        refused: How much of a message that was taken the receiver threw away, as far as it says.
        smaller: Whether a part of it might be taken: it was too large, or holds something that
            cannot be encoded. Of both ``again`` and ``smaller`` it is unknown which applies.
    """

    taken: bool
    again: bool = False
    asked_s: float = 0.0
    refused: int = 0
    smaller: bool = False


class Sending:
    """
    Sends messages of one signal, and returns what became of each.

    Args:
        signal: What is sent, for the log.
        session: What the exporter sends with, where that tells what it was answered.
    """

    def __init__(self, signal: str, session: HttpSession | None = None) -> None:
        self._signal = signal
        self._session = session
        self._deliveries = ExportErrors(signal)
        self._logged: set[type[Exception]] = set()

    def send(self, export: Callable[[], bool]) -> SpanAnswer:
        """
        Send one message, and return when it was taken or not.

        Args:
            export: Hands it to the exporter, and returns whether that was a success.
        """
        if self._session is not None:
            self._session.forget()
        try:
            with self._deliveries.one() as delivery:
                taken = export()
        except Exception as error:
            if self._session is not None and self._session.tried:
                # Up to 1.39 the SDK's exporter raises where nobody answers.
                ExportErrors.failed(self._signal, str(error))
                return _answer_over_http(self._session)
            if type(error) not in self._logged:
                self._logged.add(type(error))
                logger.warning("%s could not be exported: %s", self._signal, error, exc_info=True)
            # What is not the network or a disk is the message: it cannot be encoded.
            passing = isinstance(error, OSError)
            return SpanAnswer(taken=False, again=passing, smaller=not passing)
        if taken:
            return SpanAnswer(taken=True)
        if self._session is None:
            return _answer_in_the_log(delivery)
        return _answer_over_http(self._session)

    def arrived(self) -> None:
        """Note that something was taken."""
        self._deliveries.arrived()


def _answer_over_http(session: HttpSession) -> SpanAnswer:
    # What was never sent could not be encoded, or is longer than the exporter sends.
    smaller = session.too_large or not session.tried
    return SpanAnswer(False, session.passing, session.asked_s, smaller=smaller)


def _answer_in_the_log(delivery: Delivery) -> SpanAnswer:
    """Return what the exporter logged: it returns no reason."""
    if delivery.http_status is not None:
        from latspan._export._http_session import PASSING_STATUSES, TOO_LARGE

        return SpanAnswer(
            False,
            again=delivery.http_status in PASSING_STATUSES,
            smaller=delivery.http_status == TOO_LARGE,
        )
    status = delivery.grpc_status
    return SpanAnswer(
        False,
        again=status is None or status in _PASSING,
        smaller=status == _TOO_LARGE_OVER_GRPC,
    )
