"""Span export keeps its deadlines, retries, and counts the spans that it loses."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latspan._live.otel.export import OtlpSpans, SpanAnswer, SpanBatches
from latspan._live.sdk._global_provider import Lead
from latspan._live.sdk._span_export import SpanExport
from latspan._live.sdk._span_queue import SpanQueue
from latspan.testing import ManualClock
from support.outages import forget_outages

DEADLINE_S = 30.0
FAILURE = SpanExportResult.FAILURE


class Backend(SpanExporter):
    """A backend that accepts spans, refuses them, or blocks until it is shut down."""

    def __init__(self, *answers: SpanExportResult | Exception, hangs: bool = False) -> None:
        self.answers = list(answers)
        self.names: list[str] = []
        self.resources: list[Resource] = []
        self.arrivals = threading.Semaphore(0)
        self.closed_by: list[str] = []
        self.hangs = threading.Semaphore(0)
        self._free = threading.Event()
        if not hangs:
            self._free.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Return the next scripted result."""
        if not self._free.is_set():
            self.hangs.release()
        assert self._free.wait(DEADLINE_S)
        answer = self.answers.pop(0) if self.answers else SpanExportResult.SUCCESS
        if isinstance(answer, Exception):
            raise answer
        if answer is SpanExportResult.SUCCESS:
            self.names += [span.name for span in spans]
            self.resources += [span.resource for span in spans]
        self.arrivals.release()
        return answer

    @property
    def shutdowns(self) -> int:
        """Number of calls of ``shutdown``."""
        return len(self.closed_by)

    def hang(self) -> None:
        """Block the next exports."""
        self._free.clear()

    def go_on(self) -> None:
        """End the block."""
        self._free.set()

    def shutdown(self) -> None:
        """End the block and record the calling thread."""
        self.closed_by.append(threading.current_thread().name)
        self._free.set()


class IntervalExporter(OtlpSpans):
    """Return scripted answers, then accept everything; record the time of each batch."""

    def __init__(self, *answers: SpanAnswer, clock: ManualClock) -> None:
        super().__init__(InMemorySpanExporter())
        self._answers = list(answers)
        self._clock = clock
        self.sent: list[tuple[int, list[str]]] = []

    def send(self, spans: Sequence[ReadableSpan]) -> SpanAnswer:
        """Return the next scripted answer."""
        self.sent.append((self._clock.monotonic_ns(), [span.name for span in spans]))
        return self._answers.pop(0) if self._answers else SpanAnswer(taken=True)


@pytest.fixture(autouse=True)
def no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_outages(monkeypatch)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


def end_span(export: SpanExport, name: str, *, text: str = "") -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    Lead(provider).to = export
    provider.get_tracer("test").start_span(name, attributes={"text": text} if text else None).end()


def settle(export: SpanExport) -> None:
    """Wait until the export thread has done its pending work."""
    assert export._worker.drain(DEADLINE_S)  # pyright: ignore[reportPrivateUsage]


def lost(export: SpanExport) -> dict[str, int]:
    return {
        reading.attributes["latspan.reason"]: reading.value
        for reading in export.readings()
        if reading.attributes["latspan.signal"] == "spans"
    }


def test_a_flush_exports_ended_spans() -> None:
    """It returns ``True``, and does so too if there is nothing to export."""
    backend = Backend()
    export = SpanExport(lambda: OtlpSpans(backend))
    end_span(export, "one")

    assert export.flushing()(DEADLINE_S)
    assert backend.names == ["one"]
    assert export.flushing()(DEADLINE_S)
    export.closing()(DEADLINE_S)


def test_refused_spans_are_kept_and_sent_again(clock: ManualClock) -> None:
    """A flush tries immediately, and returns whether all spans have been exported."""
    backend = Backend(FAILURE, FAILURE)
    export = SpanExport(lambda: OtlpSpans(backend), clock=clock)
    said: list[bool] = []
    for name in ("one", "two", "three"):
        end_span(export, name)
        said.append(export.flushing()(DEADLINE_S))

    assert said == [False, False, True]
    assert lost(export) == {"queue_full": 0, "refused": 0}
    assert backend.names == ["one", "two", "three"]
    export.closing()(DEADLINE_S)


def test_spans_whose_exporter_cannot_be_created_are_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They are counted, and the reason is logged once."""

    def fail() -> OtlpSpans:
        raise ValueError("it does not start")

    export = SpanExport(fail)
    for name in ("first", "second"):
        end_span(export, name)
        assert not export.force_flush()
    export.shutdown()

    assert lost(export) == {"queue_full": 0, "refused": 2}
    assert [record.getMessage() for record in caplog.records] == [
        "spans are not exported: their exporter could not be created: it does not start"
    ]


def test_spans_at_which_an_exporter_raises_are_lost(clock: ManualClock) -> None:
    """It would raise again; one flush returns ``False``, and later spans are exported."""
    backend = Backend(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"))
    export = SpanExport(lambda: OtlpSpans(backend), clock=clock)
    said: list[bool] = []
    for name in ("one", "two"):
        end_span(export, name)
        said.append(export.flushing()(DEADLINE_S))

    assert said == [False, True]
    assert lost(export) == {"queue_full": 0, "refused": 1}
    assert backend.names == ["two"]
    export.closing()(DEADLINE_S)


def test_a_pause_requested_by_the_receiver_is_kept(clock: ManualClock) -> None:
    """Also by a flush, which then returns ``False``."""
    outlet = IntervalExporter(SpanAnswer(False, again=True, retry_after_s=30), clock=clock)
    export = SpanExport(lambda: outlet, clock=clock)
    end_span(export, "one")

    said = [export.flushing()(DEADLINE_S)]
    clock.advance(29_999_999_999)
    said.append(export.flushing()(DEADLINE_S))
    clock.advance(1)
    said.append(export.flushing()(DEADLINE_S))

    assert said == [False, False, True]
    assert outlet.sent == [(0, ["one"]), (30_000_000_000, ["one"])]
    export.closing()(DEADLINE_S)


def test_spans_rejected_from_an_accepted_batch_are_counted(clock: ManualClock) -> None:
    outlet = IntervalExporter(SpanAnswer(taken=True, refused=1), clock=clock)
    export = SpanExport(lambda: outlet, clock=clock)
    for name in ("one", "two"):
        end_span(export, name)

    assert not export.flushing()(DEADLINE_S)
    assert lost(export) == {"queue_full": 0, "refused": 1}
    export.closing()(DEADLINE_S)


def test_no_more_spans_are_counted_as_rejected_than_were_sent(clock: ManualClock) -> None:
    """A receiver may report any number, and the metric must be able to hold it."""
    outlet = IntervalExporter(SpanAnswer(taken=True, refused=2**63 - 1), clock=clock)
    export = SpanExport(lambda: outlet, clock=clock)
    end_span(export, "one")

    assert not export.flushing()(DEADLINE_S)
    assert lost(export) == {"queue_full": 0, "refused": 1}
    export.closing()(DEADLINE_S)


def test_a_flush_returns_if_no_exporter_can_be_created() -> None:
    """In a forked child, for example: the flush must not wait in vain."""
    backend = Backend()
    calls = iter(range(9))

    def resource() -> Resource:
        assert next(calls) == 1
        return Resource({})

    export = SpanExport(lambda: OtlpSpans(backend), resource=resource)
    said: list[bool] = []
    for name in ("one", "two"):
        end_span(export, name)
        said.append(export.flushing()(1.0))
    end_span(export, "three")
    export.closing()(1.0)

    assert (said, backend.names) == ([False, True], ["two"])
    assert lost(export) == {"queue_full": 0, "refused": 2}
    assert backend.closed_by == ["latspan-span-export"]


def test_a_span_that_cannot_be_encoded_does_not_affect_other_spans(clock: ManualClock) -> None:
    """An application may use such names for its spans if its provider is latspan's."""

    class Encoding(Backend):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            for span in spans:
                span.name.encode()
            return super().export(spans)

    backend = Encoding()
    export = SpanExport(lambda: OtlpSpans(backend), clock=clock)
    names = [str(number) for number in range(100)]
    for name in (*names[:37], "\ud800", *names[37:]):
        end_span(export, name)

    assert not export.flushing()(DEADLINE_S)
    assert backend.names == names
    assert lost(export) == {"queue_full": 0, "refused": 1}
    export.closing()(DEADLINE_S)


class Narrow(IntervalExporter):
    """An exporter that accepts batches up to a size, and refuses larger ones."""

    def __init__(self, most: int, *, again: bool, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self._most = most
        self._too_large = SpanAnswer(taken=False, again=again, smaller=True)
        self.refused = 0

    def send(self, spans: Sequence[ReadableSpan]) -> SpanAnswer:
        """Accept or refuse the batch."""
        if len(spans) <= self._most:
            return super().send(spans)
        self.refused += 1
        return self._too_large


@pytest.mark.parametrize("again", [False, True])
def test_a_batch_that_is_too_large_is_halved_until_it_is_accepted(
    clock: ManualClock, again: bool
) -> None:
    """The order is kept, no span is sent twice, and the batch size grows again gradually."""
    outlet = Narrow(9, again=again, clock=clock)
    export = SpanExport(lambda: outlet, clock=clock)
    names = [str(number) for number in range(300)]
    for name in names:
        end_span(export, name)

    assert export.flushing()(DEADLINE_S)
    assert [name for _, sent in outlet.sent for name in sent] == names
    assert lost(export) == {"queue_full": 0, "refused": 0}
    assert outlet.refused < len(outlet.sent)
    export.closing()(DEADLINE_S)


def test_a_single_span_that_is_too_large_is_lost(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted and logged, and other spans are exported."""

    class Refusing(IntervalExporter):
        def send(self, spans: Sequence[ReadableSpan]) -> SpanAnswer:
            if any(span.name == "large" for span in spans):
                return SpanAnswer(taken=False, again=True, smaller=True)
            return super().send(spans)

    outlet = Refusing(clock=clock)
    export = SpanExport(lambda: outlet, clock=clock)
    for name in ("one", "large", "two"):
        end_span(export, name, text="x" * 100_000 if name == "large" else "")

    assert not export.flushing()(DEADLINE_S)
    assert [name for _, sent in outlet.sent for name in sent] == ["one", "two"]
    assert lost(export) == {"queue_full": 0, "refused": 1}
    export.closing()(DEADLINE_S)
    assert ["they are lost" in record.getMessage() for record in caplog.records] == [True]


def test_a_receiver_that_refuses_a_small_span_is_full(clock: ManualClock) -> None:
    """``RESOURCE_EXHAUSTED`` can mean that too: pending spans are sent again after a pause."""
    outlet = Narrow(0, again=True, clock=clock)
    export = SpanExport(lambda: outlet, clock=clock)
    for name in ("one", "two"):
        end_span(export, name)

    said = [export.flushing()(DEADLINE_S)]
    outlet._most = 9  # pyright: ignore[reportPrivateUsage]
    said.append(export.flushing()(DEADLINE_S))

    assert said == [False, True]
    assert outlet.sent == [(0, ["one"]), (0, ["two"])]
    assert lost(export) == {"queue_full": 0, "refused": 0}
    export.closing()(DEADLINE_S)


class Held(IntervalExporter):
    """Accept everything once all spans have ended."""

    def __init__(self, *, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.begun = threading.Event()
        self.all_ended = threading.Event()

    def send(self, spans: Sequence[ReadableSpan]) -> SpanAnswer:
        """Wait, and accept the batch."""
        self.begun.set()
        assert self.all_ended.wait(DEADLINE_S)
        return super().send(spans)


def test_the_size_of_a_batch_is_limited_in_bytes(clock: ManualClock) -> None:
    """Each span counts as about 300 bytes plus its text."""
    outlet = Held(clock=clock)
    batches = SpanBatches(100, size=100, delay_s=3600, size_bytes=3_000)
    export = SpanExport(lambda: outlet, clock=clock, batches=batches)
    # It is sent at once, and as long as that takes, the others wait together.
    end_span(export, "first", text="x" * 5_000)
    assert outlet.begun.wait(DEADLINE_S)
    for name in "abcdef":
        end_span(export, name, text="x" * (5_000 if name == "d" else 1_000))
    outlet.all_ended.set()
    assert export.flushing()(DEADLINE_S)

    assert [sent for _, sent in outlet.sent] == [["first"], ["a", "b"], ["c"], ["d"], ["e", "f"]]
    export.closing()(DEADLINE_S)


def test_the_size_of_the_queue_is_limited_in_bytes(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest spans are dropped and counted, and one warning is logged."""
    outlet = Held(clock=clock)
    batches = SpanBatches(100, size=1, delay_s=3600, queue_bytes=3_000_000)
    export = SpanExport(lambda: outlet, clock=clock, batches=batches)
    end_span(export, "first")
    assert outlet.begun.wait(DEADLINE_S)
    for name in "abcdef":
        end_span(export, name, text="x" * 1_000_000)
    outlet.all_ended.set()
    assert not export.flushing()(DEADLINE_S)

    assert [sent for _, sent in outlet.sent] == [["first"], ["e"], ["f"]]
    assert lost(export) == {"queue_full": 4, "refused": 0}
    assert [record.getMessage() for record in caplog.records] == [
        "the queue holds spans of more than 3 MB: the oldest are dropped"
    ]
    export.closing()(DEADLINE_S)


def test_a_queue_that_shrinks_during_a_flush_is_sent_once(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread has added a span and not yet dropped one when the length is read."""

    class OneMore(SpanQueue):
        def __len__(self) -> int:
            return super().__len__() + 1

    class Once(IntervalExporter):
        def send(self, spans: Sequence[ReadableSpan]) -> SpanAnswer:
            assert spans
            return super().send(spans)

    monkeypatch.setattr("latspan._live.sdk._span_export.SpanQueue", OneMore)
    outlet = Once(clock=clock)
    export = SpanExport(lambda: outlet, clock=clock)
    end_span(export, "one")

    assert export.flushing()(1.0)
    assert outlet.sent == [(0, ["one"])]
    export.closing()(1.0)


def test_an_overrun_is_logged_once(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    """Even if the receiver accepts each batch, but more slowly than spans end."""

    class Slow(IntervalExporter):
        def send(self, spans: Sequence[ReadableSpan]) -> SpanAnswer:
            if len(self.sent) < 3:
                for number in range(4):
                    end_span(export, str(number))
            return super().send(spans)

    outlet = Slow(clock=clock)
    export = SpanExport(lambda: outlet, clock=clock, batches=SpanBatches(3, size=3, delay_s=3600))
    end_span(export, "first")
    for _ in range(4):
        export.flushing()(DEADLINE_S)

    assert lost(export) == {"queue_full": 3, "refused": 0}
    assert [record.getMessage() for record in caplog.records] == [
        "the queue holds more than 3 spans: the oldest are dropped"
    ]
    export.closing()(DEADLINE_S)


def test_shutdown_does_not_wait_for_a_pause(clock: ManualClock) -> None:
    """It is the last attempt."""
    outlet = IntervalExporter(SpanAnswer(False, again=True, retry_after_s=30), clock=clock)
    export = SpanExport(lambda: outlet, clock=clock)
    end_span(export, "one")
    assert not export.flushing()(DEADLINE_S)

    export.closing()(DEADLINE_S)

    assert outlet.sent == [(0, ["one"]), (0, ["one"])]


def test_spans_are_sent_again_after_a_pause(clock: ManualClock) -> None:
    """Without a flush, and without another span."""
    backend = Backend(FAILURE)
    export = SpanExport(
        lambda: OtlpSpans(backend), clock=clock, batches=SpanBatches(8, size=1, delay_s=0.01)
    )
    end_span(export, "one")
    assert backend.arrivals.acquire(timeout=DEADLINE_S)

    clock.advance(2_000_000_000)

    assert backend.arrivals.acquire(timeout=DEADLINE_S)
    assert backend.names == ["one"]
    export.closing()(DEADLINE_S)


def test_a_full_batch_is_exported_immediately_after_a_pause(clock: ManualClock) -> None:
    """Spans that end during the pause do not start an export."""
    backend = Backend(FAILURE)
    export = SpanExport(
        lambda: OtlpSpans(backend), clock=clock, batches=SpanBatches(8, size=1, delay_s=3600)
    )
    for name in ("one", "in the pause"):
        end_span(export, name)
        settle(export)

    clock.advance(2_000_000_000)
    end_span(export, "after it")
    settle(export)

    assert backend.names == ["one", "in the pause", "after it"]
    export.closing()(DEADLINE_S)


def test_refused_spans_are_dropped_first_if_the_queue_is_full(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """They are the oldest; each lost span is counted, and one warning is logged."""
    backend = Backend(*[FAILURE] * 100)
    export = SpanExport(
        lambda: OtlpSpans(backend), clock=clock, batches=SpanBatches(3, size=3, delay_s=3600)
    )
    said: list[bool] = []
    for numbers in (range(3), range(3, 5), range(5, 9)):
        for number in numbers:
            end_span(export, str(number))
        said.append(export.flushing()(DEADLINE_S))
    backend.answers.clear()
    end_span(export, "9")
    said.append(export.flushing()(DEADLINE_S))

    assert said == [False, False, False, False]
    assert backend.names == ["7", "8", "9"]
    assert lost(export) == {"queue_full": 7, "refused": 0}
    assert [record.getMessage() for record in caplog.records] == [
        "the queue holds more than 3 spans: the oldest are dropped"
    ]
    assert export.flushing()(DEADLINE_S)
    export.closing()(DEADLINE_S)


def test_spans_lost_at_shutdown_are_logged(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The log is the only output left."""
    backend = Backend(FAILURE)
    export = SpanExport(lambda: OtlpSpans(backend), clock=clock)
    for name in ("one", "two"):
        end_span(export, name)

    export.closing()(DEADLINE_S)

    assert [record.getMessage() for record in caplog.records] == [
        "Dropped 2 spans that could not be exported before shutdown"
    ]


def test_a_flush_keeps_its_timeout() -> None:
    backend = Backend(hangs=True)
    export = SpanExport(lambda: OtlpSpans(backend))
    end_span(export, "one")

    assert not export.flushing()(0.001)
    assert backend.hangs.acquire(timeout=DEADLINE_S)
    export.closing()(0.001)
    assert backend.shutdowns == 1


def test_shutdown_exports_the_pending_spans() -> None:
    """It shuts the exporter down once."""
    backend = Backend()
    export = SpanExport(lambda: OtlpSpans(backend))
    end_span(export, "one")

    export.closing()(DEADLINE_S)

    assert backend.names == ["one"]
    assert backend.shutdowns == 1


def test_shutdown_interrupts_a_blocked_export() -> None:
    """The exporter is shut down once, during the export."""
    backend = Backend(hangs=True)
    export = SpanExport(lambda: OtlpSpans(backend))
    end_span(export, "one")
    wait = export.closing()
    assert backend.hangs.acquire(timeout=DEADLINE_S)

    wait(0.001)

    assert backend.shutdowns == 1


def test_a_span_is_exported_after_the_delay() -> None:
    """Without a full batch, and without a flush."""
    backend = Backend()
    export = SpanExport(
        lambda: OtlpSpans(backend), batches=SpanBatches(queue=8, size=8, delay_s=0.01)
    )
    end_span(export, "one")

    assert backend.arrivals.acquire(timeout=DEADLINE_S)
    assert backend.names == ["one"]
    export.closing()(DEADLINE_S)


def test_a_full_batch_is_exported_immediately() -> None:
    """The delay applies only to incomplete batches."""
    backend = Backend()
    export = SpanExport(
        lambda: OtlpSpans(backend), batches=SpanBatches(queue=8, size=2, delay_s=3600)
    )
    for name in ("one", "two"):
        end_span(export, name)

    assert backend.arrivals.acquire(timeout=DEADLINE_S)
    assert backend.names == ["one", "two"]
    export.closing()(DEADLINE_S)


def test_the_oldest_spans_are_dropped_if_the_queue_is_full(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Memory is bounded even if the backend blocks; one warning is logged."""
    backend = Backend()
    export = SpanExport(
        lambda: OtlpSpans(backend), batches=SpanBatches(queue=2, size=2, delay_s=3600)
    )
    backend.hang()
    for name in ("sent", "sent too"):
        end_span(export, name)
    assert backend.hangs.acquire(timeout=DEADLINE_S)
    for name in ("one", "two", "three", "four"):
        end_span(export, name)
    backend.go_on()

    export.closing()(DEADLINE_S)
    assert backend.names == ["sent", "sent too", "three", "four"]
    assert len(caplog.records) == 1
    assert lost(export) == {"queue_full": 2, "refused": 0}


def test_spans_are_ignored_after_shutdown() -> None:
    """A global provider continues to pass on the application's spans."""
    backend = Backend()
    export = SpanExport(lambda: OtlpSpans(backend))
    export.closing()(DEADLINE_S)
    end_span(export, "late")

    assert export.flushing()(DEADLINE_S)
    assert backend.names == []


def test_spans_are_exported_with_the_resource_of_the_process() -> None:
    """Only the resource is replaced."""
    backend = Backend()
    own = Resource({"service.instance.id": "own"})
    export = SpanExport(lambda: OtlpSpans(backend), resource=lambda: own)
    end_span(export, "one")

    assert export.force_flush()
    assert (backend.names, backend.resources) == (["one"], [own])
    export.shutdown()
    assert backend.shutdowns == 1
