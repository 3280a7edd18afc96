"""Sink that creates no spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from latspan._spans._span import AttributeValue, ChildSpan, DecidedAtStart, FinishedSpan, OpenSpan

__all__ = ["NoSink"]


class NoSink:
    """Sink that creates no spans; only histograms are recorded."""

    inline = False

    def open(
        self,
        name: str,  # noqa: ARG002
        *,
        kind: SpanKind,  # noqa: ARG002
        start_epoch_ns: int,  # noqa: ARG002
        attributes: Mapping[str, AttributeValue],  # noqa: ARG002
        parent_context: Context,
    ) -> OpenSpan:
        """Return an object in the place of a span; the current span stays current."""
        return _NoSpan(parent_context)

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Drop the children."""


class _NoSpan(DecidedAtStart):
    __slots__ = ("context",)

    span_context = trace.INVALID_SPAN_CONTEXT

    def __init__(self, parent_context: Context) -> None:
        self.context = parent_context

    def add_event(self, name: str, attributes: Mapping[str, AttributeValue], epoch_ns: int) -> None:
        pass

    def end(self, finished: FinishedSpan) -> None:
        pass
