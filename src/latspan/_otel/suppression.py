"""
Suppression of instrumentation: context keys with which a program turns instrumentations off.

``opentelemetry.instrumentation.utils`` sets them, and the SDK's exporters do while they send. The
keys have a random suffix, so they must be read from the module that creates them. A release without
them leaves the key of plain text, which older releases set.
"""

from __future__ import annotations

from typing import Final

from opentelemetry import context
from opentelemetry.context import Context

__all__ = ["is_http_suppressed", "is_suppressed"]

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
