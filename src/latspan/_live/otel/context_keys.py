"""
OpenTelemetry's own context keys: of the current span, and of the suppression of instrumentation.

The keys have a random suffix, and that of the current span has no public name.

A program turns instrumentations off with the keys of suppression.
``opentelemetry.instrumentation.utils`` sets them, and the SDK's exporters do while they send. They
must be read from the module that creates them. A release without them leaves the key of plain text,
which older releases set.

latspan sets them too while it sends something of its own. That module would also load the
propagators, which takes 5 ms in every program that configures latspan.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import context, trace
from opentelemetry.context import Context

_CURRENT_SPAN: Final = next(iter(trace.set_span_in_context(trace.INVALID_SPAN, Context())))
"""OpenTelemetry's own context key. It has a random suffix and no public name."""


def current_span(parent_context: Context) -> trace.Span | None:
    """Return the current span of ``parent_context``, as ``trace.get_current_span`` does, if any."""
    span: Any = parent_context.get(_CURRENT_SPAN)
    return span


def with_current_span(span: trace.Span, parent_context: Context) -> Context:
    """Return a copy of the context in which ``span`` is current."""
    return Context({**parent_context, _CURRENT_SPAN: span})


_PLAIN: Final = "suppress_instrumentation"


def _existing(*names: str) -> tuple[str, ...]:
    return (*(key for name in names if (key := getattr(context, name, None)) is not None), _PLAIN)


_KEYS: Final = _existing("_SUPPRESS_INSTRUMENTATION_KEY")
_HTTP_KEYS: Final = _existing("_SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_HTTP_INSTRUMENTATION_KEY")


def is_suppressed(current: Context) -> bool:
    """Return whether ``current`` suppresses all instrumentation."""
    # A loop: `any` over a generator costs ten times as much, and this runs twice per call.
    for key in _KEYS:  # noqa: SIM110
        if current.get(key):
            return True
    return False


def is_http_suppressed(current: Context) -> bool:
    """Return whether ``current`` suppresses the instrumentation of HTTP, or all."""
    for key in _HTTP_KEYS:  # noqa: SIM110
        if current.get(key):
            return True
    return False


@contextmanager
def suppress_instrumentation() -> Generator[None]:
    """Suppress all instrumentation inside the block."""
    token = context.attach(Context({**context.get_current(), **dict.fromkeys(_KEYS, True)}))
    try:
        yield
    finally:
        context.detach(token)
