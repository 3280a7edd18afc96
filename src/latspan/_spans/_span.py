"""What a span is to a live request: a child, an end, an open one, and where it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, SpanKind

__all__ = [
    "AttributeValue",
    "ChildSpan",
    "DecidedAtStart",
    "EndChildren",
    "FinishedSpan",
    "OpenSpan",
    "SpanSink",
]

AttributeValue = str | bool | int | float | Sequence[str]


class ChildSpan(NamedTuple):
    """
    A child that is known only after its parent has ended.

    Args:
        name: Its name.
        start_epoch_ns: Unix nanoseconds.
        end_epoch_ns: Unix nanoseconds.
        attributes: All of them.
        kind: Its kind.
        failed: Whether its status is an error.
        most_bytes: How many bytes it takes at most when encoded, ``None`` where that is not known.
    """

    name: str
    start_epoch_ns: int
    end_epoch_ns: int
    attributes: Mapping[str, AttributeValue]
    kind: SpanKind = SpanKind.INTERNAL
    failed: bool = False
    most_bytes: int | None = None


class FinishedSpan(NamedTuple):
    """
    What is known of a span at its end.

    Args:
        end_epoch_ns: Unix nanoseconds.
        attributes: Added to those it was opened with.
        failed: Whether its status is an error.
        children: Spans beneath it.
        name: What it turned out to be; its first name stands if ``None``.
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
        """Its identity, which travels in ``traceparent``."""
        ...

    @property
    def context(self) -> Context:
        """The OpenTelemetry context in which it is the current span."""
        ...

    @property
    def kept(self) -> bool:
        """Whether it is known already that its trace is kept."""
        ...

    def when_kept(self, do: Callable[[], None]) -> None:
        """Call ``do`` once that becomes known later; never, if its trace is left out."""
        ...

    def finish(self, finished: FinishedSpan) -> None:
        """End it, children included; called once."""
        ...


class DecidedAtStart:
    """What a span has in common with others of whose trace it is known at once if it is kept."""

    __slots__ = ()

    span_context: SpanContext
    """Its identity."""

    @property
    def kept(self) -> bool:
        """Whether its trace is kept, as far as this process decides."""
        return self.span_context.trace_flags.sampled

    def when_kept(self, do: Callable[[], None]) -> None:
        """Never: what is known at once does not become known later."""


class SpanSink(Protocol):
    """Where spans are opened."""

    @property
    def inline(self) -> bool:
        """
        Whether spans must be finished on the caller's thread, when the request ends.

        True for an application's own provider, but where that waits for latspan before it flushes.
        """
        ...

    def open(
        self,
        name: str,
        *,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
        around: Context,
    ) -> OpenSpan:
        """
        Begin a span.

        Args:
            name: Its name.
            kind: Its kind.
            start_epoch_ns: When it began, Unix nanoseconds.
            attributes: What is known of it; a sampler may read them.
            around: The context that it begins in: the span that is current there is its parent.
        """
        ...

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Make and end spans beneath the one that is current in ``parent``."""
        ...


EndChildren = Callable[[Sequence[ChildSpan], Context], None]
"""Makes and ends the children of the span that is current in a context."""
