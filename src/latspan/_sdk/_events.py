"""Routing of events: to the application's logger provider if it has one, else to latspan's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import LogRecord, get_logger_provider

from latspan._otel.providers import has_log_processors
from latspan._version import __version__
from latspan.semconv import SCHEMA_URL

if TYPE_CHECKING:
    from opentelemetry.context import Context

__all__ = ["Events"]


class Events:
    """
    Emits each event through the logger provider that is global at that moment.

    As with spans, an application may set its provider before or after latspan is configured.

    Args:
        private: Receives events while the application has no provider; ``None`` drops them.
    """

    __slots__ = ("_private",)

    def __init__(self, private: Callable[[LogRecord], None] | None) -> None:
        self._private = private

    def __call__(
        self, name: str, epoch_ns: int, attributes: Mapping[str, Any], context: Context, /
    ) -> None:
        """Emit an event; arguments as for :class:`latspan._runtime.EmitEvent`."""
        record = LogRecord(
            timestamp=epoch_ns, context=context, event_name=name, attributes=attributes
        )
        provider = get_logger_provider()
        if has_log_processors(provider):
            provider.get_logger("latspan", __version__, schema_url=SCHEMA_URL).emit(record)
        elif self._private is not None:
            self._private(record)
