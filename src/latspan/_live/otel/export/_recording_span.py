"""
Current span inside latspan's spans while latspan's private provider is in use.

The application, or another instrumentation, gets it from ``trace.get_current_span()`` and may write
to it from any thread. Most programs never do, so the object only has the identity of the span until
then; the first write creates a :class:`Written`. The span itself is built when it ends, on the
thread that processes finished requests, from its :class:`Written` and from what latspan measured.

**States.** A span records until :attr:`RecordingSpan.is_over` is set. latspan sets it when a
request, a stage or a traced function ends, and for a call when its span is built, shortly after its
end. Later writes are ignored, as those on an ended span of the SDK. The application cannot end the
span: ``end`` does nothing, because latspan ends it.

**References.** The span must not refer to the context in which it is current, nor to an object that
does: the context refers to the span, and a cycle could be freed only by the garbage collector.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, SpanLimits
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, SpanContext, Status, StatusCode

from latspan._base.internal_errors import handle_internal_errors
from latspan._base.log import warn_once
from latspan._base.text import text_of
from latspan._live.otel.limits import limited_to
from latspan._live.otel.spans import MAX_TEXT_LENGTH, given_attributes

_LATEST_EPOCH_NS: Final = 2**64 - 1
"""Latest time that OTLP can represent."""

_DOING: Final = "what the application sets on a span"


class Written:
    """
    What the application has set on an open span.

    Args:
        limits: Limits of the span.
    """

    __slots__ = ("attributes", "events", "links", "name", "status")

    def __init__(self, limits: SpanLimits) -> None:
        self.attributes = BoundedAttributes(limits.max_span_attributes, immutable=False)
        self.events: BoundedList[Event] = BoundedList(limits.max_events)
        self.links: BoundedList[Link] = BoundedList(limits.max_links)
        self.name: str | None = None
        self.status: Status | None = None

    def added_to(self, at_start: Mapping[str, Any], at_end: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the attributes of the whole span; of one name, the value that was set last remains.

        Args:
            at_start: Attributes that latspan set at the start of the span.
            at_end: Attributes that latspan sets at its end.
        """
        own = self.attributes.copy()
        # The application's come first, because the first ones are dropped if there are too many.
        return {**own, **at_start, **own, **at_end}


class RecordingSpan(trace.Span):
    """
    Open, sampled span of the private provider.

    Args:
        span_context: Identity of the span.
        limits: Limits of what the application can set.
    """

    # Class attributes, because one such object is created for each call, and nearly none is
    # written to.
    written: Written | None = None
    """What the application has set so far; ``None`` if nothing."""
    is_over = False
    """Whether what the application sets from now on is ignored."""

    def __init__(self, span_context: SpanContext, limits: SpanLimits) -> None:
        self._context = span_context
        self._limits = limits

    def _writable(self) -> Written | None:
        if self.is_over:
            warn_once("an attribute, event or status is ignored: its span has ended")
            return None
        if self.written is None:
            # Two threads may be the first at the same time; `setdefault` is atomic.
            vars(self).setdefault("written", Written(self._limits))
        return self.written

    def get_span_context(self) -> SpanContext:
        """Return the identity of the span."""
        return self._context

    def is_recording(self) -> bool:
        """Return whether the request, call or stage of the span is still open."""
        return not self.is_over

    def end(self, end_time: int | None = None) -> None:
        """Do nothing: latspan ends its own spans."""

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes; latspan makes each value encodable."""
        with handle_internal_errors(_DOING):
            written = self._writable()
            if written is not None:
                written.attributes.update(given_attributes(attributes))

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute."""
        self.set_attributes({text_of(key): value})

    def add_event(
        self,
        name: str,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Add an event, at the present time if it has none."""
        with handle_internal_errors(_DOING):
            written = self._writable()
            if written is None:
                return
            if not isinstance(timestamp, int) or not 0 <= timestamp <= _LATEST_EPOCH_NS:
                timestamp = time.time_ns()
            max_count = self._limits.max_event_attributes
            written.events.append(
                Event(text_of(name), self._limited(attributes, max_count), timestamp)
            )

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        """Add a link to another span."""
        with handle_internal_errors(_DOING):
            written = self._writable()
            # The context may be of any type, because not every caller is type-checked.
            if written is None or not isinstance(context, SpanContext):  # pyright: ignore[reportUnnecessaryIsInstance]
                return
            if context.is_valid or attributes or context.trace_state:
                max_count = self._limits.max_link_attributes
                written.links.append(Link(context, self._limited(attributes, max_count)))

    def _limited(self, attributes: object, max_count: int | None) -> Mapping[str, Any]:
        """Return the attributes of an event or a link, which have limits of their own."""
        return limited_to(
            given_attributes(attributes), max_count, self._limits.max_attribute_length
        )

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """
        Add an exception as an event.

        Source: OpenTelemetry conventions, "Semantic conventions for exceptions on spans".
        """
        with handle_internal_errors(_DOING):
            # The exception may be of any type, because not every caller is type-checked.
            if self._writable() is None or not isinstance(exception, BaseException):  # pyright: ignore[reportUnnecessaryIsInstance]
                return
            kind = type(exception)
            module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            described = {
                "exception.type": f"{module}{kind.__qualname__}",
                "exception.message": text_of(exception, MAX_TEXT_LENGTH),
                "exception.stacktrace": "".join(traceback.format_exception(exception)),
                "exception.escaped": str(escaped),
            }
            self.add_event("exception", {**described, **given_attributes(attributes)}, timestamp)

    def update_name(self, name: str) -> None:
        """Change the name, unless latspan sets a final name at the end."""
        with handle_internal_errors(_DOING):
            written = self._writable()
            if written is not None:
                written.name = text_of(name)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """
        Set the status; ``OK`` is final, and ``UNSET`` has no effect.

        Source: OpenTelemetry trace API specification, "Set Status".
        """
        with handle_internal_errors(_DOING):
            written = self._writable()
            if isinstance(status, Status):
                status, description = status.status_code, status.description
            if written is None or status not in {StatusCode.OK, StatusCode.ERROR}:
                return
            if written.status is None or written.status.status_code is not StatusCode.OK:
                failed = status is StatusCode.ERROR and description is not None
                written.status = Status(
                    status, text_of(description, MAX_TEXT_LENGTH) if failed else None
                )

    def __repr__(self) -> str:
        return f"RecordingSpan({self._context!r})"
