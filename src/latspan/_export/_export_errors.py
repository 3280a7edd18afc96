"""
Deliveries of latspan's own: under suppression, and one line in the log for an outage.

The SDK's exporters log every try, for as long as nobody takes what they send. What they say on a
thread that delivers for latspan is held, and the first of it said once; an application's own
exporters are not touched.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from opentelemetry.instrumentation.utils import suppress_instrumentation

from latspan._log import logger, make_fit

__all__ = ["ExportErrors"]


_EXPORTERS: Final = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http._log_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)
"""The loggers of the SDK's OTLP exporters."""

_OUT_OF_TIME: Final = "DEADLINE_EXCEEDED"

_HTTP_STATUSES: Final = range(100, 600)

_delivering = threading.local()

_HEARD: Final = logging.ERROR

_silenced: Final[set[str]] = set()
"""The loggers that are switched off for everybody but latspan."""


class Delivery:
    """
    One delivery, and what the exporter said of it.

    Args:
        signal: What is delivered, for the log.
    """

    def __init__(self, signal: str) -> None:
        self.signal = signal
        self.grpc_status: str | None = None
        """
        The name of the last one that was not ``OK``, where it was told; not that the time for
        further tries was up, where one before had another reason.
        """
        self.http_status: int | None = None
        """The last one that was no success, where it was told."""

    def hear(self, record: logging.LogRecord) -> None:
        """Take in what the exporter said."""
        if record.levelno >= logging.WARNING:
            ExportErrors.failed(self.signal, record.getMessage())
        for value in record.args or ():
            # The gRPC exporter returns no reason, but says it with the code itself.
            if type(value).__name__ == "StatusCode":
                name = getattr(value, "name", None)
                if self.grpc_status is None or name != _OUT_OF_TIME:
                    self.grpc_status = name
            elif type(value) is int and value in _HTTP_STATUSES:
                self.http_status = value


class ExportErrors:
    """
    The deliveries of one signal.

    Args:
        signal: What is delivered, for the log.
    """

    _failing: Final[set[str]] = set()
    """The signals that nobody takes: an outage of all of them is one line."""

    def __init__(self, signal: str) -> None:
        self._signal = signal
        for name in _EXPORTERS:
            filters = logging.getLogger(name).filters
            if _hold not in filters:
                # Before the SDK's own, which lets the same message through once in 20 s.
                filters.insert(0, _hold)

    @contextmanager
    def one(self) -> Generator[Delivery]:
        """Deliver inside the block, and say nothing of it but the first failure."""
        around: Delivery | None = getattr(_delivering, "one", None)
        _delivering.one = delivery = Delivery(self._signal)
        try:
            _listen()
            with suppress_instrumentation():
                yield delivery
        finally:
            _delivering.one = around

    def arrived(self) -> None:
        """Note that something was taken."""
        if self._signal in self._failing:
            self._failing.discard(self._signal)
            logger.info("%s are delivered again", self._signal)

    @classmethod
    def failed(cls, signal: str, reason: str) -> None:
        """Note that something was not taken; the first time of an outage, say so."""
        first = not cls._failing
        cls._failing.add(signal)
        if first:
            logger.warning(
                "%s cannot be delivered, and more are lost the longer that lasts: %s",
                signal,
                reason,
            )


def _listen() -> None:
    """Have the exporters heard, also where the application has switched their loggers off."""
    for name in _EXPORTERS:
        logger = logging.getLogger(name)
        # What is off for all loggers, for a while maybe, is left so.
        if not logger.isEnabledFor(_HEARD) and logger.manager.disable < _HEARD:
            _silenced.add(name)
            logger.disabled = False
            logger.setLevel(_HEARD)


def _hold(record: logging.LogRecord) -> bool:
    """Let a record through unless it is about a delivery of latspan's."""
    delivery: Delivery | None = getattr(_delivering, "one", None)
    if delivery is None:
        # Unless the application has said since what it wants to hear.
        return record.name not in _silenced or logging.getLogger(record.name).level != _HEARD
    delivery.hear(record)
    # The exporter's own line quotes the receiver too.
    return logger.isEnabledFor(logging.DEBUG) and make_fit(record)
