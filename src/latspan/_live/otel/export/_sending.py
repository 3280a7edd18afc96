"""Sending of one message with an exporter of the SDK, and its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from latspan._base.log import logger
from latspan._base.slices import give_way
from latspan._live.otel.export._export_errors import ExportAttempt, ExportErrors
from latspan._live.otel.export._last_export import LastExport
from latspan._live.otel.export._partial_success import ResponseKeeper, rejected_items

if TYPE_CHECKING:
    from latspan._live.otel.export._http_session import HttpSession

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
gRPC statuses after which the same message is to be sent again.

Source: OTLP specification 1.9, "Failures".
"""

_TOO_LARGE_OVER_GRPC: Final = "RESOURCE_EXHAUSTED"
"""Status of a message above gRPC's size limit; an overloaded receiver sends it too."""


class SpanAnswer(NamedTuple):
    """
    Result of sending a message.

    Args:
        taken: Whether the receiver accepted it.
        again: Whether to send it again, if it was not accepted.
        retry_after_s: Pause that the receiver requested, in seconds; 0 if it requested none.
        refused: Number of items that the receiver rejected from an accepted message, if reported.
        smaller: Whether a part of it might be accepted: it was too large, or contains an item that
            cannot be encoded. If both ``again`` and ``smaller`` are set, it is unknown which of
            the two applies.
    """

    taken: bool
    again: bool = False
    retry_after_s: float = 0.0
    refused: int = 0
    smaller: bool = False


class Sending:
    """
    Sends messages of one signal and returns the result of each.

    Args:
        signal: Name of the signal, for the log.
        session: The exporter's HTTP session, if it is one that records the last response.
        exporter: The exporter; over gRPC, it may record the last response itself.
        items: Name of what a message consists of, for the log; the signal if not given.
        splits: Whether the caller sends the parts of a message that is too large.
    """

    def __init__(
        self,
        signal: str,
        session: HttpSession | None = None,
        *,
        exporter: object = None,
        items: str | None = None,
        splits: bool = True,
    ) -> None:
        self._signal = signal
        self._items = signal if items is None else items
        self._session = session
        self._keeper = exporter if isinstance(exporter, ResponseKeeper) else session
        self._splits = splits
        self._deliveries = ExportErrors(signal)
        self._logged: set[type[Exception]] = set()

    def send(self, export: Callable[[], bool]) -> SpanAnswer:
        """
        Send one message, wait for the response and return the result.

        Args:
            export: Function that passes the message to the exporter and returns whether the
                receiver accepted it.
        """
        give_way()
        response = self._answer_to(export)
        if response.refused:
            self._deliveries.rejected(f"it rejected {response.refused} {self._items}")
        else:
            self._deliveries.count(accepted=response.taken)
        if response.taken:
            LastExport.accepted()
        elif response.again:
            LastExport.failed()
        return response

    def _answer_to(self, export: Callable[[], bool]) -> SpanAnswer:
        if self._session is not None:
            self._session.forget()
        outages_over = ExportErrors.outages_over
        try:
            with self._deliveries.one() as delivery:
                answer = self._answer(export(), delivery)
                delivery.is_lost = self._is_lost(answer)
                return answer
        except Exception as error:
            if self._session is not None and self._session.tried:
                # Up to 1.39 the SDK's exporter raises if no response arrives.
                answer = _answer_over_http(self._session)
                is_lost = self._is_lost(answer)
                ExportErrors.failed(
                    self._signal, str(error), is_lost=is_lost, outages_over=outages_over
                )
                return answer
            if type(error) not in self._logged:
                self._logged.add(type(error))
                logger.warning("%s could not be exported: %s", self._signal, error, exc_info=True)
            # An error that is not one of the network or a disk means that the message cannot be
            # encoded.
            passing = isinstance(error, OSError)
            return SpanAnswer(taken=False, again=passing, smaller=not passing)

    def _answer(self, taken: bool, delivery: ExportAttempt) -> SpanAnswer:
        if taken:
            body = b"" if self._keeper is None else self._keeper.body
            return SpanAnswer(taken=True, refused=rejected_items(body, self._items))
        if self._session is None:
            return _answer_in_the_log(delivery)
        return _answer_over_http(self._session)

    def _is_lost(self, answer: SpanAnswer) -> bool:
        """Return whether no part of a message is sent again."""
        if answer.smaller:
            return not answer.taken and not self._splits
        return not answer.taken and not answer.again

    def arrived(self) -> None:
        """Record that the receiver accepted a message, which ends an outage."""
        self._deliveries.arrived()


def _answer_over_http(session: HttpSession) -> SpanAnswer:
    # A message that was never sent could not be encoded, or exceeds the exporter's own limit.
    smaller = session.too_large or not session.tried
    return SpanAnswer(False, session.passing, session.retry_after_s, smaller=smaller)


def _answer_in_the_log(delivery: ExportAttempt) -> SpanAnswer:
    """Return the result that the exporter's log shows, because the exporter returns no reason."""
    if delivery.http_status is not None:
        from latspan._live.otel.export._http_session import PASSING_STATUSES, TOO_LARGE

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
