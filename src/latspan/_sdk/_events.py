"""Routing of events: to the application's logger provider if it has one, else to latspan's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import LogRecord, NoOpLoggerProvider, get_logger_provider
from opentelemetry._logs._internal import ProxyLoggerProvider

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
        if _is_the_applications(provider):
            provider.get_logger("latspan", __version__, schema_url=SCHEMA_URL).emit(record)
        elif self._private is not None:
            self._private(record)


def _is_the_applications(provider: object) -> bool:
    """Return whether a provider has processors; ``True`` if its internals are not recognised."""
    if isinstance(provider, (ProxyLoggerProvider, NoOpLoggerProvider)):
        return False
    processor = getattr(provider, "_multi_log_record_processor", None)
    processors = getattr(processor, "_log_record_processors", None)
    return processors is None or bool(processors)
