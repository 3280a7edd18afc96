"""Events of the private pipeline: a log record with the resource and scope of its export."""

from __future__ import annotations

from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource

from latspan._export._metrics import SCOPE

__all__ = ["event_record"]


def event_record(record: LogRecord, resource: Resource) -> ReadableLogRecord:
    """
    Return an event in the form that exporters accept.

    Args:
        record: The event.
        resource: The resource of this process.
    """
    return ReadableLogRecord(record, resource, SCOPE)
