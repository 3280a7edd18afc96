"""Flushing and shutting down keep their time, and say what became of the spans."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from latspan.sdk._span_export import SpanExport

DEADLINE_S = 30.0


class Backend(SpanExporter):
    """Takes spans, refuses them, or keeps everyone waiting until it is shut down."""

    def __init__(self, *answers: SpanExportResult | Exception, hangs: bool = False) -> None:
        self.answers = list(answers)
        self.names: list[str] = []
        self.shutdowns = 0
        self._free = threading.Event()
        if not hangs:
            self._free.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Answer as told to."""
        assert self._free.wait(DEADLINE_S)
        answer = self.answers.pop(0) if self.answers else SpanExportResult.SUCCESS
        if isinstance(answer, Exception):
            raise answer
        if answer is SpanExportResult.SUCCESS:
            self.names += [span.name for span in spans]
        return answer

    def shutdown(self) -> None:
        """Let go of whoever hangs."""
        self.shutdowns += 1
        self._free.set()


def end_span(export: SpanExport, name: str) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(export)
    provider.get_tracer("test").start_span(name).end()


def test_a_flush_sends_what_has_ended() -> None:
    """And says so; one with nothing to send is as good."""
    backend = Backend()
    export = SpanExport(lambda: backend)
    end_span(export, "one")

    assert export.flushing()(DEADLINE_S)
    assert backend.names == ["one"]
    assert export.flushing()(DEADLINE_S)
    export.closing()(DEADLINE_S)


def test_a_flush_of_refused_spans_says_so_once() -> None:
    """Refused and raised are both lost, whatever the processor says."""
    backend = Backend(SpanExportResult.FAILURE, OSError("unreachable"))
    export = SpanExport(lambda: backend)
    said: list[bool] = []
    for name in ("one", "two", "three"):
        end_span(export, name)
        said.append(export.flushing()(DEADLINE_S))

    assert said == [False, False, True]
    assert backend.names == ["three"]
    export.closing()(DEADLINE_S)


def test_a_flush_waits_no_longer_than_it_is_told() -> None:
    """The next one tells how it went on."""
    backend = Backend(hangs=True)
    export = SpanExport(lambda: backend)
    end_span(export, "one")

    assert not export.flushing()(0.001)
    export.closing()(0.001)
    assert backend.shutdowns == 1


def test_closing_sends_the_rest() -> None:
    """And shuts the exporter down, once."""
    backend = Backend()
    export = SpanExport(lambda: backend)
    end_span(export, "one")

    export.closing()(DEADLINE_S)

    assert backend.names == ["one"]
    assert backend.shutdowns == 1


def test_closing_cuts_short_what_hangs() -> None:
    """The exporter is shut down under the batch it holds, and only once."""
    backend = Backend(hangs=True)
    export = SpanExport(lambda: backend)
    end_span(export, "one")

    export.closing()(0.001)

    assert backend.shutdowns == 1
