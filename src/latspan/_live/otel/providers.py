"""
Providers that an application has set: whether they are placeholders, and whether anything listens.

The API has placeholders until a provider is set; that of the logs is only importable from a private
module. A provider without processors drops everything, which its public attributes do not show.
If a release renames the attributes that are read here, a provider counts as having processors.
"""

from __future__ import annotations

from typing import Any, Final

from opentelemetry import trace

_UNSET: Final = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)


def is_unset(provider: object) -> bool:
    """Return whether a tracer provider is one of the API's, which record nothing."""
    return isinstance(provider, _UNSET)


def has_span_processors(provider: object) -> bool:
    """Return whether a tracer provider has span processors; true if its type is not known."""
    # Imports the SDK, which an application with a provider has already imported.
    from opentelemetry.sdk.trace import SynchronousMultiSpanProcessor

    processor: Any = getattr(provider, "_active_span_processor", None)
    if type(processor) is not SynchronousMultiSpanProcessor:
        return True
    processors = getattr(processor, "_span_processors", None)
    return processors is None or bool(processors)


def has_log_processors(provider: object) -> bool:
    """Return whether a logger provider has processors; true if its type is not known."""
    from opentelemetry._logs import NoOpLoggerProvider

    # The placeholder of the API is recognised by its name, because its module is private.
    if isinstance(provider, NoOpLoggerProvider) or type(provider).__name__ == "ProxyLoggerProvider":
        return False
    processor = getattr(provider, "_multi_log_record_processor", None)
    processors = getattr(processor, "_log_record_processors", None)
    return processors is None or bool(processors)
