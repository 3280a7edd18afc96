"""No spans at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from latspan._spans._span import AttributeValue, ChildSpan, DecidedAtStart, FinishedSpan, OpenSpan

__all__ = ["NoSink"]


class NoSink:
    """No spans: histograms alone."""

    inline = False

    def open(
        self,
        name: str,  # noqa: ARG002
        *,
        kind: SpanKind,  # noqa: ARG002
        start_epoch_ns: int,  # noqa: ARG002
        attributes: Mapping[str, AttributeValue],  # noqa: ARG002
        around: Context,
    ) -> OpenSpan:
        """Hand on whatever span is current, and end nothing."""
        return _NoSpan(around)

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Drop them."""


class _NoSpan(DecidedAtStart):
    __slots__ = ("context",)

    span_context = trace.INVALID_SPAN_CONTEXT

    def __init__(self, around: Context) -> None:
        self.context = around

    def finish(self, finished: FinishedSpan) -> None:
        pass
