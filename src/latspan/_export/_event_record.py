"""An event of the private pipeline: a log record with the resource and the scope it leaves with."""

from __future__ import annotations

from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource

from latspan._export._metrics import SCOPE

__all__ = ["event_record"]


def event_record(record: LogRecord, resource: Resource) -> ReadableLogRecord:
    """
    Return an event as exporters take it.

    Args:
        record: The event.
        resource: What this process is called.
    """
    return ReadableLogRecord(record, resource, SCOPE)
