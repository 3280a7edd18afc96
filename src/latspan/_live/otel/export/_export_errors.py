"""
Log output of latspan's own exports: one line per outage, with instrumentation suppressed.

During an outage the SDK's exporters log every failed attempt. A filter on their loggers holds back
the records of a thread that exports for latspan, and latspan logs the first failure of an outage
once. Records of an application's own exporters are not affected.

The filter identifies latspan's exports with a thread-local `Delivery`, which `ExportErrors.one()`
sets around each export. The filter needs the records even if the application has switched these
loggers off; then the loggers are switched on again, and the filter drops all records of other
threads until the application sets another level.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from latspan._base.log import EXPORT_FAILED, EXPORT_REFUSED, logger, make_safe
from latspan._base.shown import foreign
from latspan._live.otel.context_keys import suppress_instrumentation
from latspan._live.otel.export._last_export import LastExport

_EXPORTERS: Final = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http._log_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)
"""The loggers of the SDK's OTLP exporters."""

_OUT_OF_TIME: Final = "DEADLINE_EXCEEDED"

_UNANSWERED: Final = "no response before the process ended"

_HTTP_STATUSES: Final = range(100, 600)

_delivering = threading.local()

_MIN_LEVEL: Final = logging.ERROR

_silenced: Final[set[str]] = set()
"""Loggers that the application has switched off, and that latspan has switched on again."""


class ExportAttempt:
    """
    One export, with the status codes that the exporter logged during it.

    Args:
        signal: Name of the exported signal, for the log.
    """

    def __init__(self, signal: str) -> None:
        self.signal = signal
        self.outages_over = ExportErrors.outages_over
        self.grpc_status: str | None = None
        """
        Name of the last gRPC status other than ``OK``, if the exporter logged one.

        ``DEADLINE_EXCEEDED`` does not replace an earlier status: it only reports that there was no
        time for further attempts.
        """
        self.http_status: int | None = None
        """Last HTTP status of a failure, if the exporter logged one."""
        self.reason: str | None = None
        """First reason of a final failure, which is logged once it is known what is lost."""
        self.is_lost = False
        """Whether the message is not sent again."""

    def handle(self, record: logging.LogRecord) -> None:
        """Record the failure and the status codes in a log record of the exporter."""
        if record.levelno >= logging.ERROR:
            self.reason = self.reason or record.getMessage()
        elif record.levelno == logging.WARNING:
            # The exporter logs a warning before it waits for its next attempt.
            ExportErrors.failed(self.signal, record.getMessage(), outages_over=self.outages_over)
            LastExport.failed()
        for value in record.args or ():
            # The gRPC exporter does not return a reason, but logs the status code object.
            if type(value).__name__ == "StatusCode":
                name = getattr(value, "name", None)
                if self.grpc_status is None or name != _OUT_OF_TIME:
                    self.grpc_status = name
            elif type(value) is int and value in _HTTP_STATUSES:
                self.http_status = value


@dataclass(slots=True)
class ExportResult:
    """
    Results of this process's exports of one signal.

    Args:
        accepted: Number of messages that the receiver accepted.
        failed: Number of messages that it did not accept, or of which it rejected a part; each
            attempt counted.
        reason: Reason of the first failure.
    """

    accepted: int = 0
    failed: int = 0
    reason: str | None = None


export_results: Final[defaultdict[str, ExportResult]] = defaultdict(ExportResult)
"""Results by the name of the signal; each signal is exported on one thread."""

# The parent of a forked child counts its own.
os.register_at_fork(after_in_child=export_results.clear)


class ExportErrors:
    """
    Exports of one signal and the log lines about them.

    Args:
        signal: Name of the exported signal, for the log.
    """

    _warned: Final[set[str]] = set()
    """
    Signal of the last warning, until its export works again; empty without an outage.

    It applies to the whole process, so an outage of several signals is logged once, and the line
    about its end names the signal of the warning. If another signal still fails then, its next
    failure is logged as another outage.
    """
    _loss_warned: Final[set[str]] = set()
    """The same, of the last warning that reported a loss: an outage may begin without one."""
    outages_over: int = 0
    """
    Number of outages of this process that are over.

    A message whose export began before the end of an outage and fails after it failed in that
    outage, for example because the receiver never answered it.
    """

    def __init__(self, signal: str) -> None:
        self._signal = signal
        for name in _EXPORTERS:
            filters = logging.getLogger(name).filters
            if _hold not in filters:
                # Inserted before the SDK's own filter, which suppresses repeated messages for 20 s.
                filters.insert(0, _hold)

    @contextmanager
    def one(self) -> Generator[ExportAttempt]:
        """Suppress instrumentation and hold back the exporters' log records in the block."""
        outer: ExportAttempt | None = getattr(_delivering, "one", None)
        _delivering.one = delivery = ExportAttempt(self._signal)
        try:
            _listen()
            with suppress_instrumentation():
                yield delivery
        finally:
            _delivering.one = outer
            if delivery.reason is not None:
                self.failed(
                    self._signal,
                    delivery.reason,
                    is_lost=delivery.is_lost,
                    outages_over=delivery.outages_over,
                )

    def count(self, *, accepted: bool) -> None:
        """Count one message that was sent, for the doctor."""
        if accepted:
            export_results[self._signal].accepted += 1
        else:
            export_results[self._signal].failed += 1

    def rejected(self, reason: str) -> None:
        """Count one accepted message of which the receiver rejected a part, for the doctor."""
        result = export_results[self._signal]
        result.failed += 1
        result.reason = result.reason or reason

    @staticmethod
    def unanswered(signal: str) -> None:
        """Count a message without a response before shutdown, for the doctor."""
        result = export_results[signal]
        # If another message failed before, its reason is known.
        if not result.failed:
            result.failed = 1
            result.reason = result.reason or _UNANSWERED

    def arrived(self) -> None:
        """Record that the receiver accepted a message; log the end of an outage of this signal."""
        if self._signal in self._warned:
            self._warned.discard(self._signal)
            self._loss_warned.clear()
            ExportErrors.outages_over += 1
            logger.info("exporting %s works again", self._signal)

    @classmethod
    def failed(
        cls, signal: str, reason: str, *, is_lost: bool = False, outages_over: int | None = None
    ) -> None:
        """
        Record that a message was not accepted; log the first failure, and the first loss.

        Args:
            signal: Name of the exported signal.
            reason: Text of the exporter or of the exception.
            is_lost: Whether the message is not sent again.
            outages_over: :attr:`outages_over` at the start of the export; as now if not given.
        """
        result = export_results[signal]
        if result.reason is None:
            # The reasons that follow may only report that the exporter stopped.
            result.reason = foreign(reason)
        warned = cls._loss_warned if is_lost else cls._warned
        is_late = not is_lost and outages_over not in (None, cls.outages_over)
        if not warned and not is_late:
            warned.add(signal)
            if not cls._warned:
                cls._warned.add(signal)
            logger.warning(EXPORT_REFUSED if is_lost else EXPORT_FAILED, signal, reason)


def _listen() -> None:
    """Enable the exporters' loggers if the application has switched them off."""
    for name in _EXPORTERS:
        logger = logging.getLogger(name)
        # `logging.disable` applies to all loggers, perhaps only for a while; leave it in effect.
        if not logger.isEnabledFor(_MIN_LEVEL) and logger.manager.disable < _MIN_LEVEL:
            _silenced.add(name)
            logger.disabled = False
            logger.setLevel(_MIN_LEVEL)


def _hold(record: logging.LogRecord) -> bool:
    """Return whether a record may be logged: false for records of latspan's own exports."""
    delivery: ExportAttempt | None = getattr(_delivering, "one", None)
    if delivery is None:
        # `_listen` has set this level. Any other level was set by the application after that.
        return record.name not in _silenced or logging.getLogger(record.name).level != _MIN_LEVEL
    delivery.handle(record)
    # The exporter's own line, logged at debug level, quotes the receiver's text too.
    return logger.isEnabledFor(logging.DEBUG) and make_safe(record)
