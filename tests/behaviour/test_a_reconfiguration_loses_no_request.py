"""Threads make requests all the time while latspan is configured again: each counts once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import latspan
from latspan._live.operations import LocalScope
from latspan._live.process.runtime import Runtime, current_runtime
from latspan._model.segments import Kind, Outcome
from latspan.errors import ConfigError
from support.receivers import Refusing, refusing

DEADLINE_S: Final = 30.0
THREADS: Final = 3
TIMES: Final = 4
MADE_MEANWHILE: Final = 200
PAUSE_S: Final = 0.0005
"""Pause between two requests of a thread, so that the threads of latspan can keep up."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Refusing]:
    """The receiver that latspan sends to by default; latspan is shut down afterwards."""
    with refusing("http/protobuf", None) as running:
        monkeypatch.setenv("LATSPAN_ENDPOINT", running.url)
        yield running
        running.answers.set()
        latspan.shutdown()


def current() -> Runtime:
    runtime = current_runtime()
    assert runtime is not None
    return runtime


def spans(receiver: Refusing) -> int:
    return sum(span.name == "work" for span in receiver.taken.all_spans)


class Traffic:
    """Threads that make requests until the end of the block."""

    def __init__(self) -> None:
        self.made = [0] * THREADS
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(number,)) for number in range(THREADS)
        ]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        while not self._over.wait(PAUSE_S):
            with latspan.request("work"):
                self.made[number] += 1


def configure_while(receiver: Refusing, meanwhile: Callable[[], None], **settings: object) -> None:
    """Configure latspan; the receiver answers the last export only after ``meanwhile``."""
    receiver.waits.clear()
    receiver.answers.clear()
    thread = threading.Thread(target=latspan.configure, kwargs=settings)
    thread.start()
    assert receiver.waits.wait(DEADLINE_S)
    meanwhile()
    receiver.answers.set()
    thread.join()


def test_each_request_counts_in_exactly_one_configuration(
    receiver: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the receiver does not answer the last export of the previous configuration."""
    # The first message that the receiver does not answer is then the last one with histograms.
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    latspan.configure()
    runtimes = [current()]
    traffic, made_here = Traffic(), 0

    def work() -> None:
        nonlocal made_here
        runtimes.append(current())
        for _ in range(MADE_MEANWHILE):
            with latspan.request("work"):
                made_here += 1

    # Without any request, a configuration would export no histogram at its end.
    with latspan.request("work"):
        made_here += 1
    with traffic:
        for _ in range(TIMES):
            configure_while(receiver, work)
    latspan.shutdown()

    counts = [runtime.recorder.snapshot().count() for runtime in runtimes]
    assert len(set(map(id, runtimes))) == TIMES + 1
    assert all(count >= MADE_MEANWHILE for count in counts[1:])
    assert sum(counts) == made_here + sum(traffic.made)


def test_so_does_a_request_that_ends_its_span_at_once(receiver: Refusing) -> None:
    """With a provider of the application, the thread of the request records it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    latspan.configure(tracer_provider=provider)
    runtimes = [current()]
    traffic, made_here = Traffic(), 0

    def work() -> None:
        nonlocal made_here
        runtimes.append(current())
        with latspan.request("work"):
            made_here += 1

    # Without any request, a configuration would export no histogram at its end.
    with latspan.request("work"):
        made_here += 1
    with traffic:
        for _ in range(TIMES):
            configure_while(receiver, work, tracer_provider=provider)
    latspan.shutdown()

    counts = [runtime.recorder.snapshot().count() for runtime in runtimes]
    assert sum(counts) == made_here + sum(traffic.made)
    assert sum(span.name == "work" for span in exporter.get_finished_spans()) == sum(counts)


def test_a_request_that_begins_in_the_previous_configuration_too_late_counts_in_the_new_one(
    receiver: Refusing,
) -> None:
    """Its thread read the configuration before the exchange and opened the request after it."""
    latspan.configure()
    previous = current()
    latspan.configure(keep_records=None)
    LocalScope(previous, kind=Kind.REQUEST, name="work").end(Outcome.COMPLETED)

    (record,) = latspan.snapshot().records
    assert (record.name, record.outcome) == ("work", Outcome.COMPLETED)
    assert latspan.force_flush()
    assert spans(receiver) == 1
    assert previous.recorder.snapshot().count() == 0


def test_a_flush_waits_for_the_export_of_another_thread(receiver: Refusing) -> None:
    """It reports that what a shutdown still exports has not been exported."""
    latspan.configure()
    with latspan.request("work"):
        pass
    receiver.answers.clear()
    thread = threading.Thread(target=latspan.shutdown)
    thread.start()
    receiver.waits.wait()
    flushed_before = latspan.force_flush(timeout_s=0)
    receiver.answers.set()

    assert (flushed_before, latspan.force_flush()) == (False, True)
    assert spans(receiver) == 1
    thread.join()


def test_a_configuration_that_fails_while_requests_are_made_loses_none(receiver: Refusing) -> None:
    """The previous configuration counts them all."""
    latspan.configure()
    traffic = Traffic()
    with traffic:
        for _ in range(TIMES):
            with pytest.raises(ConfigError):
                latspan.configure(endpoint="nowhere")

    assert latspan.snapshot().count() == sum(traffic.made)
