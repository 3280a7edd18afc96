"""Log records carry histograms as they are, once each, in messages that are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.resources import Resource

from latspan._live.otel.export import OtlpPayloads, SelfMetric
from latspan._live.otel.export._http_session import HttpSession
from latspan._model.recording import Recorder, RequestRecord, SeriesKey, Snapshot, key_of, read_tag
from latspan.histogram import Histogram, decode
from latspan.testing import ManualClock
from support.records import RECORD

RESOURCE = Resource({"service.name": "test"})


class Backend(LogRecordExporter):
    """Takes what it is sent, but for what it is told to refuse."""

    def __init__(self, *refused: int) -> None:
        self.refused = refused
        self.asked = 0
        self.taken: list[Sequence[ReadableLogRecord]] = []
        self.shutdowns = 0

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Keep a message."""
        self.asked += 1
        if self.asked in self.refused:
            return LogRecordExportResult.FAILURE
        self.taken.append(batch)
        return LogRecordExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits."""
        return timeout_millis > 0

    def shutdown(self) -> None:
        """Note that no more will come."""
        self.shutdowns += 1


def interval_of(*records: RequestRecord) -> Snapshot:
    recorder = Recorder(ManualClock())
    for record in records:
        recorder.record(record)
    return recorder.swap_interval()


def histograms_of(backend: Backend) -> dict[SeriesKey, Histogram]:
    """Return what came, merged by series, from the attributes and the text alone."""
    held: dict[SeriesKey, Histogram] = {}
    for batch in backend.taken:
        for each in batch:
            record: Any = each.log_record
            said = {
                name.removeprefix("latspan.histogram."): value
                for name, value in record.attributes.items()
                if name.startswith("latspan.histogram.")
            }
            exact = {f"{name}_ns": said.pop(name) for name in ("sum", "min", "max")}
            tag = read_tag(record.attributes["latspan.series"])
            assert record.event_name == "latspan.histogram"
            held.setdefault(key_of(tag.metric, tag.attributes), Histogram()).merge(
                Histogram.from_buckets(decode(record.body).histogram, **exact, **said)
            )
    return held


def test_what_is_sent_is_what_was_recorded() -> None:
    """Every series of the interval, those that no metric is made of too, to the last value."""
    interval = interval_of(RECORD, replace(RECORD, duration_ns=7), replace(RECORD, duration_ns=-1))
    backend = Backend()

    assert OtlpPayloads(backend, resource=RESOURCE).send(interval)

    assert histograms_of(backend) == {
        key: series.histogram for key, series in interval.series.items() if series.histogram.count
    }
    [batch] = backend.taken
    assert {each.resource for each in batch} == {RESOURCE}


def test_what_was_refused_comes_with_the_next_interval() -> None:
    """And what was taken does not come again."""
    backend = Backend(2)
    payloads = OtlpPayloads(backend, resource=RESOURCE, part_bytes=1)

    taken = [payloads.send(interval_of(RECORD)), payloads.send(interval_of(RECORD))]
    payloads.shutdown(1)

    assert taken == [False, True]
    assert {key.metric: held.count for key, held in histograms_of(backend).items()} == {
        "segment": 2,
        "duration": 2,
    }
    assert backend.shutdowns == 1


@pytest.mark.parametrize("status", [400, 413])
def test_what_is_refused_for_good_stops_nothing_that_comes_after(status: int) -> None:
    """One message of two is refused each time; it is counted, and not sent again."""

    class Session(HttpSession):
        def forget(self) -> None:
            super().forget()
            self.tried, self._status = True, status

    backend = Backend(1, 3)
    payloads = OtlpPayloads(backend, resource=RESOURCE, part_bytes=1, session=Session())

    taken = [payloads.send(interval_of(RECORD)) for _ in range(2)]
    taken.append(payloads.send(interval_of()))

    assert taken == [False, False, True]
    assert [key.metric for key in histograms_of(backend)] == ["duration"]
    assert sum(held.count for held in histograms_of(backend).values()) == 2
    assert list(payloads.readings()) == [
        SelfMetric(
            "latspan.dropped", 2, {"latspan.signal": "payloads", "latspan.reason": "refused"}
        )
    ]


def test_no_message_is_too_large() -> None:
    """Many series are sent in several; none is left out."""
    records = [replace(RECORD, attributes={"model": "€" * number}) for number in range(1, 200)]
    backend = Backend()

    OtlpPayloads(backend, resource=RESOURCE, part_bytes=20_000).send(interval_of(*records))

    assert len(histograms_of(backend)) == 2 * len(records)
    assert max(encode_logs(batch).ByteSize() for batch in backend.taken) <= 20_000
