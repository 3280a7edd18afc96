"""
Interface between an open request and its spans: child, finished and open spans, and the sink.

One sink is here too: the one that creates no spans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, SpanKind

AttributeValue = (
    str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]
)


class ChildSpan(NamedTuple):
    """
    Child span that is known only after its parent has ended.

    Args:
        name: Its name.
        start_epoch_ns: Unix nanoseconds.
        end_epoch_ns: Unix nanoseconds.
        attributes: All of them.
        kind: Its kind.
        failed: Whether its status is an error.
        max_bytes: Maximum size in bytes when encoded, ``None`` if not known.
    """

    name: str
    start_epoch_ns: int
    end_epoch_ns: int
    attributes: Mapping[str, AttributeValue]
    kind: SpanKind = SpanKind.INTERNAL
    failed: bool = False
    max_bytes: int | None = None


class FinishedSpan(NamedTuple):
    """
    Data of a span that is known at its end.

    Args:
        end_epoch_ns: Unix nanoseconds.
        attributes: Added to those it was opened with.
        failed: Whether its status is an error.
        children: Its child spans.
        name: Final name of the span; its first name is kept if ``None``.
    """

    end_epoch_ns: int
    attributes: Mapping[str, AttributeValue]
    failed: bool = False
    children: tuple[ChildSpan, ...] = ()
    name: str | None = None


class OpenSpan(Protocol):
    """A span that has begun."""

    @property
    def span_context(self) -> SpanContext:
        """Span context, which is propagated in ``traceparent``."""
        ...

    @property
    def context(self) -> Context:
        """The OpenTelemetry context in which it is the current span."""
        ...

    @property
    def kept(self) -> bool:
        """Whether it is already known that its trace is kept."""
        ...

    def when_kept(self, do: Callable[[], None]) -> None:
        """
        Call ``do`` when latspan decides later that the span's trace is kept.

        It is never called if the trace is dropped.
        """
        ...

    @property
    def marked_failed(self) -> bool:
        """Whether the application has set the span's status to an error."""
        ...

    def add_event(self, name: str, attributes: Mapping[str, AttributeValue], epoch_ns: int) -> None:
        """
        Add an event to the span, unless it has ended.

        Args:
            name: Its name.
            attributes: Its attributes.
            epoch_ns: Unix nanoseconds.
        """
        ...

    def stop_recording(self) -> None:
        """
        Accept nothing more from the application: what the span measures has ended.

        :meth:`end` follows, possibly on another thread.
        """
        ...

    def end(self, finished: FinishedSpan) -> None:
        """End the span and its children; called once."""
        ...


class DecidedAtStart:
    """Base of spans for which it is known at the start whether their trace is kept."""

    __slots__ = ()

    span_context: SpanContext
    """Span context."""

    @property
    def kept(self) -> bool:
        """Whether its trace is kept, as far as this process decides."""
        return self.span_context.trace_flags.sampled

    def when_kept(self, do: Callable[[], None]) -> None:
        """Never call ``do``: the decision is known at the start and does not change later."""

    @property
    def marked_failed(self) -> bool:
        """False if the span belongs to a provider of the application, which handles its status."""
        return False

    def stop_recording(self) -> None:
        """Do nothing: the span accepts attributes until its provider ends it."""


class SpanSink(Protocol):
    """Object that opens spans."""

    @property
    def inline(self) -> bool:
        """
        Whether spans must be finished on the caller's thread, when the request ends.

        True for an application's own provider, unless the provider waits for latspan before it
        flushes.
        """
        ...

    def open(
        self,
        name: str,
        *,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
        parent_context: Context,
    ) -> OpenSpan:
        """
        Begin a span.

        Args:
            name: Its name.
            kind: Its kind.
            start_epoch_ns: Start of the span, Unix nanoseconds.
            attributes: Attributes known at the start; a sampler may read them.
            parent_context: Context that it begins in: the span that is current there is its parent.
        """
        ...

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Create and end child spans of the span that is current in ``parent``."""
        ...


EndChildren = Callable[[Sequence[ChildSpan], Context], None]
"""Function that creates and ends the children of the span that is current in a context."""


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
