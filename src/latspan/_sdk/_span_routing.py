"""Routing of spans: to the application's provider if it has one, else to latspan's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider, TracerProvider

from latspan._spans import ApiSink, SpanSink
from latspan._version import __version__
from latspan._warn_once import warn_once
from latspan.semconv import SCHEMA_URL

__all__ = ["SpanRouter"]

_NONE: Final = (ProxyTracerProvider, NoOpTracerProvider)
"""Types of the global provider if the application has set none."""


class SpanRouter:
    """
    Selects, for each request, the sink of its spans.

    An application may set its global provider before or after latspan is configured; the provider
    is used from then on. A provider of the SDK without a span processor does not count, because it
    drops its spans. ``OTEL_PYTHON_TRACER_PROVIDER`` creates a provider on the first call that
    requests the global one.

    Args:
        private: Returns the sink of spans while the application has no provider.
        chosen: Configured provider, used instead of the global one.
        begin: Called for each request; starts the threads that a process starts with its first
            request.
        warning: Warning to log once if the application's provider is used.
    """

    __slots__ = ("_api", "_begin", "_chosen", "_private", "_provider", "_warning")

    def __init__(
        self,
        private: Callable[[], SpanSink],
        chosen: TracerProvider | None = None,
        *,
        begin: Callable[[], None] | None = None,
        warning: str | None = None,
    ) -> None:
        self._begin = begin
        self._warning = warning
        self._private = private
        self._chosen = chosen
        self._provider: TracerProvider | None = None
        self._api: ApiSink | None = None

    def provider(self) -> TracerProvider | None:
        """Return the application's provider; ``None`` while it has none."""
        provider = self._chosen or trace.get_tracer_provider()
        return None if isinstance(provider, _NONE) else provider

    def __call__(self) -> SpanSink:
        """Return the sink to use now."""
        if self._begin is not None:
            self._begin()
        provider = self._chosen or trace.get_tracer_provider()
        if self._api is None or provider is not self._provider:
            if isinstance(provider, _NONE):
                return self._private()
            # Imports the SDK, which an application with a provider has already imported.
            from latspan._export import application_sink
            from latspan._export._processors import has_processors

            if provider is not self._chosen and not has_processors(provider):
                return self._private()
            if self._warning is not None:
                warn_once(self._warning)
            tracer = provider.get_tracer("latspan", __version__, schema_url=SCHEMA_URL)
            self._provider, self._api = provider, application_sink(tracer)
        return self._api
