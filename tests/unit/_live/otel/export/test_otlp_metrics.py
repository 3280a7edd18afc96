"""Every value arrives once, with the right start, whatever an exporter answers meanwhile."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.resources import Resource

from latspan._base.nanoseconds import NS_PER_S
from latspan._live.otel.export import OtlpMetrics, SelfMetric, _otlp_metrics, readings_of
from latspan._live.otel.export._http_session import HttpSession
from latspan._model.metrics import MetricValue
from latspan._model.recording import Recorder, RequestRecord
from latspan.testing import ManualClock
from support.records import RECORD

DELTA = AggregationTemporality.DELTA
CUMULATIVE = AggregationTemporality.CUMULATIVE


class Backend:
    """Takes what it is sent, but for what it is told to refuse."""

    def __init__(self, *refused: int) -> None:
        self.refused = refused
        self.asked = 0
        self.timeouts_ms: list[float] = []
        self.points: list[dict[str, list[Any]]] = []

    def export(self, metrics_data: MetricsData, timeout_millis: float = 0) -> MetricExportResult:
        """Count the messages; keep the data points of those that are taken."""
        self.asked += 1
        self.timeouts_ms.append(timeout_millis)
        if self.asked in self.refused:
            return MetricExportResult.FAILURE
        [scope_metrics] = metrics_data.resource_metrics[0].scope_metrics
        self.points.append(
            {metric.name: list(metric.data.data_points) for metric in scope_metrics.metrics}
        )
        return MetricExportResult.SUCCESS

    def shutdown(self, timeout_millis: float = 0) -> None:
        """Nothing to let go of."""

    def values(self, metric: str) -> list[Any]:
        """Return the values of a counter, message by message."""
        return [point.value for points in self.points for point in points.get(metric, ())]


def outlet(recorder: Recorder, backend: Backend, **settings: Any) -> OtlpMetrics:
    return OtlpMetrics(
        recorder,
        backend,
        resource=Resource({}),
        about=lambda: readings_of(recorder),
        **settings,
    )


def of_model(model: str) -> RequestRecord:
    return replace(RECORD, attributes={"model": model})


class Session(HttpSession):
    """Was answered so the last time, whatever was sent."""

    def __init__(self, status: int, retry_after: str | None = None) -> None:
        self._answer = (status, retry_after)
        super().__init__()

    def forget(self) -> None:
        """Remember what is to be answered."""
        super().forget()
        self.tried = True
        self._status, self._retry_after = self._answer


@pytest.mark.parametrize("temporality", [DELTA, CUMULATIVE])
def test_a_receiver_is_left_alone_as_long_as_it_asked_to_be(
    temporality: AggregationTemporality,
) -> None:
    """Nothing is lost meanwhile; the last interval of all is no time for a pause."""
    clock = ManualClock()
    recorder, backend = Recorder(clock), Backend(1, 3)
    sending = outlet(
        recorder, backend, temporality=temporality, session=Session(503, "30"), clock=clock
    )
    asked: list[int] = []
    for wait_s in (0, 29, 1, 29):
        clock.advance(wait_s * NS_PER_S)
        recorder.record(RECORD)
        sending.send(recorder.swap_interval())
        asked.append(backend.asked)
    assert asked == [1, 1, 2, 3]
    recorder.record(RECORD)

    assert sending.send(recorder.swap_interval(), last=True)
    counts = [
        sum(point.count for point in points["latspan.segment.duration"])
        for points in backend.points
    ]
    assert counts == ([3, 2] if temporality is DELTA else [3, 5])


def test_what_was_taken_of_a_delta_export_is_not_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of three messages the second is refused: it and the third come with the next interval."""
    monkeypatch.setattr(_otlp_metrics, "metrics_parts", one_series_a_part)
    recorder, backend = Recorder(ManualClock()), Backend(2)
    sending = outlet(recorder, backend, temporality=DELTA)
    for model in "abc":
        recorder.record(of_model(model))

    taken = [sending.send(recorder.swap_interval())]
    recorder.record(of_model("c"))
    taken.append(sending.send(recorder.swap_interval()))

    assert taken == [False, True]
    assert counts_of(backend) == [("a", 1), ("b", 1), ("c", 2)]


@pytest.mark.parametrize("temporality", [DELTA, CUMULATIVE])
@pytest.mark.parametrize("status", [400, 401, 413, 500])
def test_what_is_refused_for_good_stops_nothing_that_comes_after(
    monkeypatch: pytest.MonkeyPatch, temporality: AggregationTemporality, status: int
) -> None:
    """Of three messages the second is refused each time; it is counted, and not all was taken."""
    monkeypatch.setattr(_otlp_metrics, "metrics_parts", one_series_a_part)
    recorder, backend = Recorder(ManualClock()), Backend(2, 5)
    sending = outlet(recorder, backend, temporality=temporality, session=Session(status))
    taken: list[bool] = []
    for _ in range(2):
        for model in "abc":
            recorder.record(of_model(model))
        taken.append(sending.send(recorder.swap_interval()))
    taken.append(sending.send(recorder.swap_interval()))

    whole = temporality is CUMULATIVE
    assert taken == [False, False, True]
    assert counts_of(backend) == [
        *(("a", 1), ("c", 1)),
        *(("a", 2 if whole else 1), ("c", 2 if whole else 1)),
        *((("a", 2), ("b", 2), ("c", 2)) if whole else ()),
    ]
    # Under cumulative temporality, the third message has the values of the refused ones.
    assert sending.lost == (0 if whole else 2)
    [reading] = sending.readings()
    assert reading == SelfMetric(
        "latspan.dropped", 2, {"latspan.signal": "data_points", "latspan.reason": "refused"}
    )
    assert sum(backend.values("latspan.dropped")) == (1 + 2 if whole else 2)


def counts_of(backend: Backend) -> list[tuple[str, int]]:
    return [
        (point.attributes["gen_ai.request.model"], point.count)
        for points in backend.points
        for point in points.get("latspan.segment.duration", ())
    ]


@pytest.mark.parametrize(
    ("status", "taken"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, ["a", "c"]),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ["a", "c"]),
        (grpc.StatusCode.UNAVAILABLE, ["a"]),
    ],
)
def test_over_grpc_the_status_determines_whether_to_continue(
    monkeypatch: pytest.MonkeyPatch, status: grpc.StatusCode, taken: list[str]
) -> None:
    """The exporter returns no reason and logs it: what may pass is waited for."""

    class Grpc(Backend):
        def export(self, *message: Any, **settings: Any) -> MetricExportResult:
            result = super().export(*message, **settings)
            if result is MetricExportResult.FAILURE:
                logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter").error(
                    "Failed to export %s, error code: %s", "metrics", status
                )
            return result

    monkeypatch.setattr(_otlp_metrics, "metrics_parts", one_series_a_part)
    recorder, backend = Recorder(ManualClock()), Grpc(2)
    for model in "abc":
        recorder.record(of_model(model))

    assert not outlet(recorder, backend, temporality=DELTA).send(recorder.swap_interval())
    assert [model for model, _ in counts_of(backend)] == taken


def one_series_a_part(*arguments: Any, **settings: Any) -> Any:
    return METRICS_PARTS(*arguments, **settings, part_bytes=1)


METRICS_PARTS = _otlp_metrics.metrics_parts


def test_a_series_counts_since_it_began() -> None:
    """Cumulative points start with their series; delta points with their interval."""
    clock = ManualClock(epoch_offset_ns=0)
    recorder = Recorder(clock)
    cumulative, delta = Backend(), Backend()
    outlets = [
        outlet(recorder, cumulative, temporality=CUMULATIVE),
        outlet(recorder, delta, temporality=DELTA),
    ]
    for models in ("a", "ab", "b", "a"):
        for model in models:
            recorder.record(of_model(model))
        clock.advance(10)
        interval = recorder.swap_interval()
        for each in outlets:
            each.send(interval)
        if models == "b":
            recorder.forget_idle(before_epoch_ns=30)

    def seen(backend: Backend) -> list[list[tuple[str, int, int, int]]]:
        return [
            [
                (
                    point.attributes["gen_ai.request.model"],
                    point.start_time_unix_nano,
                    point.time_unix_nano,
                    point.count,
                )
                for point in points["latspan.segment.duration"]
            ]
            for points in backend.points
        ]

    assert seen(cumulative) == [
        [("a", 0, 10, 1)],
        [("a", 0, 20, 2), ("b", 10, 20, 1)],
        [("a", 0, 30, 2), ("b", 10, 30, 2)],
        [("b", 10, 40, 2), ("a", 30, 40, 1)],
    ]
    assert seen(delta) == [
        [("a", 0, 10, 1)],
        [("a", 10, 20, 1), ("b", 10, 20, 1)],
        [("b", 20, 30, 1)],
        [("a", 30, 40, 1)],
    ]


@pytest.mark.parametrize("temporality", [DELTA, CUMULATIVE])
@pytest.mark.parametrize(("wanted", "expected"), [("trace_based", [7]), ("always_off", [])])
def test_exemplars_are_those_of_the_interval(
    monkeypatch: pytest.MonkeyPatch,
    temporality: AggregationTemporality,
    wanted: str,
    expected: list[int],
) -> None:
    """Once each, unless the environment wants none."""
    monkeypatch.setenv("OTEL_METRICS_EXEMPLAR_FILTER", wanted)
    recorder, backend = Recorder(ManualClock(epoch_offset_ns=0)), Backend()
    sending = outlet(recorder, backend, temporality=temporality)
    recorder.record(replace(RECORD, trace_id=7, span_id=8, sampled=True))
    sending.send(recorder.swap_interval())
    recorder.record(RECORD)
    sending.send(recorder.swap_interval())

    assert traces_shown(backend) == [expected, []]


def traces_shown(backend: Backend) -> list[list[int]]:
    """Return the traces of the exemplars, message by message."""
    return [
        sorted({shown.trace_id for point in points for shown in point.exemplars})
        for points in (held["latspan.segment.duration"] for held in backend.points)
    ]


@pytest.mark.parametrize("temporality", [DELTA, CUMULATIVE])
def test_exemplars_of_an_export_that_failed_come_with_the_next(
    temporality: AggregationTemporality,
) -> None:
    """Once, and where the later interval has none of its own."""
    recorder, backend = Recorder(ManualClock(epoch_offset_ns=0)), Backend(1)
    sending = outlet(recorder, backend, temporality=temporality)
    recorder.record(replace(RECORD, trace_id=7, span_id=8, sampled=True))
    sending.send(recorder.swap_interval())
    for _ in range(2):
        recorder.record(RECORD)
        sending.send(recorder.swap_interval())

    assert traces_shown(backend) == [[7], []]


@pytest.mark.parametrize(("temporality", "shown"), [(DELTA, []), (CUMULATIVE, [7])])
def test_an_exemplar_is_of_the_time_of_its_point(
    temporality: AggregationTemporality, shown: list[int]
) -> None:
    """A trace that is kept only in a later interval is none of what that interval counted."""
    clock = ManualClock(epoch_offset_ns=0)
    recorder, backend = Recorder(clock), Backend()
    sending = outlet(recorder, backend, temporality=temporality)
    late = replace(RECORD, trace_id=7, span_id=8)
    recorder.record(late)
    clock.advance(RECORD.duration_ns + 1)
    sending.send(recorder.swap_interval())
    recorder.record(replace(RECORD, start_epoch_ns=clock.monotonic_ns()))
    recorder.add_exemplar(late)
    sending.send(recorder.swap_interval())

    assert traces_shown(backend) == [[], shown]


@pytest.mark.parametrize(("temporality", "expected"), [(CUMULATIVE, [1, 1, 3]), (DELTA, [1, 2])])
def test_losses_are_exported(temporality: AggregationTemporality, expected: list[int]) -> None:
    """Negative values are counted by a metric of their own, since the start or the last export."""
    recorder, backend = Recorder(ManualClock()), Backend()
    sending = outlet(recorder, backend, temporality=temporality)
    odd = replace(RECORD, metrics={"time_to_first_token": MetricValue(-1)})
    for records in ([odd, RECORD], [RECORD], [odd, odd]):
        for record in records:
            recorder.record(record)
        sending.send(recorder.swap_interval())

    assert backend.values("latspan.dropped") == expected


def test_losses_are_exported_again_until_they_arrive() -> None:
    """A refused message does not swallow a delta."""
    recorder, backend = Recorder(ManualClock(), cardinality_limit=1), Backend(1)
    sending = outlet(recorder, backend, temporality=DELTA)
    for model in "abc":
        recorder.record(of_model(model))

    sending.send(recorder.swap_interval())
    sending.send(recorder.swap_interval())

    assert backend.values("latspan.series.overflow") == [2, 2]


def test_a_gauge_alone_is_not_worth_a_message() -> None:
    """The size of a queue goes with whatever else is sent."""
    recorder, backend = Recorder(ManualClock()), Backend()
    sending = OtlpMetrics(
        recorder,
        backend,
        resource=Resource({}),
        temporality=DELTA,
        about=lambda: [SelfMetric("latspan.queue.size", 5)],
    )

    sending.send(recorder.swap_interval())
    recorder.record(RECORD)
    sending.send(recorder.swap_interval())

    assert backend.values("latspan.queue.size") == [5]
