"""Spans of the private provider on their way out, flushed and shut down in the time given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from latspan.sdk._worker import Worker

__all__ = ["SpanExport"]


class SpanExport:
    """
    The SDK's batches, with endings that keep their time and say what became of the spans.

    ``BatchSpanProcessor.force_flush`` does not keep its timeout and says ``True`` even where
    nothing left; ``shutdown`` has none and waits up to 30 s (open-telemetry/opentelemetry-python
    issues 4555 and 4568). So both run on a thread of their own. It starts at once: when the
    interpreter goes down no thread can be started any more.

    Args:
        exporter: Where spans go; shut down together with this.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = _Heard(exporter)
        self.processor = BatchSpanProcessor(self._exporter)
        self._waiting = Worker("latspan-span-export")
        self._waiting.submit(_begin)

    def flushing(self) -> Callable[[float], bool]:
        """
        Begin to send what has ended so far.

        Returns:
            What waits for it, at most the given seconds, and says whether all spans since the
            last flush were taken.
        """
        done = threading.Event()
        sent: list[bool] = []

        def flush() -> None:
            flushed = self.processor.force_flush()
            sent.append(self._exporter.took_all() and flushed)
            done.set()

        self._waiting.submit(flush)
        return lambda timeout_s: done.wait(timeout_s) and sent[0]

    def closing(self) -> Callable[[float], None]:
        """
        Begin to send what is left and to shut down.

        Returns:
            What waits for it, at most the given seconds, and then cuts it short.
        """
        done = threading.Event()

        def close() -> None:
            self.processor.shutdown()
            done.set()

        def wait(timeout_s: float) -> None:
            if not done.wait(timeout_s):
                self._exporter.shutdown()
            self._waiting.stop(0)

        self._waiting.submit(close)
        return wait


def _begin() -> None:
    pass


class _Heard(SpanExporter):
    """An exporter, and whether it failed."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._failed = False
        self._open = [True]

    def took_all(self) -> bool:
        """Return whether every batch since the last question was taken."""
        failed, self._failed = self._failed, False
        return not failed

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            if result is not SpanExportResult.SUCCESS:
                self._failed = True
        return result

    def shutdown(self) -> None:
        try:
            self._open.pop()
        except IndexError:
            return
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
