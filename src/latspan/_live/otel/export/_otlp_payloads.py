"""Interval exporter for exact histograms: HdrHistogram's text encoding in OTLP log records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.resources import Resource

from latspan import semconv
from latspan._base.slices import give_way
from latspan._live.otel.export._interval_export import Unsent
from latspan._live.otel.export._metrics import PART_BYTES, SCOPE
from latspan._live.otel.export._self_metrics import SelfMetric, refused
from latspan._live.otel.export._sending import Sending
from latspan._live.otel.spans import size_of_attributes
from latspan._model.recording import Series, SeriesKey, Snapshot, tag_of
from latspan.histogram import encode

if TYPE_CHECKING:
    from latspan._live.otel.export._http_session import HttpSession

_FIXED_BYTES: Final = 160


class OtlpPayloads:
    """
    Interval exporter that sends the histograms unchanged, one log record per series.

    The histograms that backends store are approximate. The histograms sent here are exact and merge
    without loss, so that percentiles over many processes can be computed later. Histograms that
    could not be sent are sent with the next interval; those that a receiver refuses permanently, or
    rejects from an accepted message, are counted and not sent again.

    Args:
        exporter: Any log exporter of the SDK; shut down together with this object.
        resource: The resource of the process, or a function that returns it.
        part_bytes: Maximum size of one message.
        session: The exporter's HTTP session, if it is one that records the last response.
    """

    local = False

    def __init__(
        self,
        exporter: LogRecordExporter,
        *,
        resource: Resource | Callable[[], Resource],
        part_bytes: int = PART_BYTES,
        session: HttpSession | None = None,
    ) -> None:
        self._exporter = exporter
        self._resource = resource if callable(resource) else lambda: resource
        self._part_bytes = part_bytes
        self._unsent = Unsent()
        self._refused = 0
        self._sending = Sending(
            "histograms", session, exporter=exporter, items="raw histograms", splits=False
        )

    def send(self, interval: Snapshot, *, last: bool = False) -> bool:  # noqa: ARG002
        """Send an interval and return whether the receiver accepted everything so far."""
        refused_before = self._refused
        for keys, records in self._parts(self._unsent.joined_by(interval)):
            response = self._sending.send(partial(self._accepted, records))
            if response.again and not response.smaller:
                return False
            self._refused += min(response.refused, len(records)) if response.taken else len(records)
            self._unsent.delivered(keys)
        self._unsent.all_delivered()
        return self._refused == refused_before

    @property
    def lost(self) -> int:
        """Number of payloads that the receiver refused permanently."""
        return self._refused

    def _accepted(self, records: Sequence[ReadableLogRecord]) -> bool:
        return self._exporter.export(records) is LogRecordExportResult.SUCCESS

    def readings(self) -> Sequence[SelfMetric]:
        """Return the number of payloads that the receiver refused permanently."""
        return refused("payloads", self._refused)

    def shutdown(self, timeout_s: float) -> None:  # noqa: ARG002 - the SDK's takes no time
        """Shut the exporter down."""
        self._exporter.shutdown()

    def _parts(
        self, snapshot: Snapshot
    ) -> Iterator[tuple[list[SeriesKey], list[ReadableLogRecord]]]:
        """Yield the series and the log records of each message."""
        resource = self._resource()
        room = self._part_bytes - size_of_attributes(resource.attributes)
        keys: list[SeriesKey] = []
        records: list[ReadableLogRecord] = []
        size = 0
        for key, series in snapshot.series.items():
            record = _record(key, series, snapshot.end_epoch_ns)
            more = (
                _FIXED_BYTES + len(str(record.body)) + size_of_attributes(record.attributes or {})
            )
            if records and size + more > room:
                yield keys, records
                keys, records, size = [], [], 0
            keys.append(key)
            records.append(ReadableLogRecord(record, resource, SCOPE))
            size += more
            give_way()
        if records:
            yield keys, records


def _record(key: SeriesKey, series: Series, end_epoch_ns: int) -> LogRecord:
    histogram = series.histogram
    extremes = {}
    if histogram.count:
        extremes = {
            semconv.LATSPAN_HISTOGRAM_MIN: histogram.min_ns,
            semconv.LATSPAN_HISTOGRAM_MAX: histogram.max_ns,
        }
    return LogRecord(
        timestamp=end_epoch_ns,
        observed_timestamp=end_epoch_ns,
        severity_number=SeverityNumber.INFO,
        event_name=semconv.EVENT_HISTOGRAM,
        body=encode(histogram),
        attributes={
            semconv.LATSPAN_SERIES: tag_of(key.metric, key.attributes),
            semconv.LATSPAN_INTERVAL_START: series.start_epoch_ns,
            # The text encoding contains only buckets; these attributes are exact.
            semconv.LATSPAN_HISTOGRAM_SUM: histogram.sum_ns,
            **extremes,
            semconv.LATSPAN_HISTOGRAM_REJECTED: histogram.rejected,
            semconv.LATSPAN_HISTOGRAM_CLAMPED: histogram.clamped,
        },
    )
