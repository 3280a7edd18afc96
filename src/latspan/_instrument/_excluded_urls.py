"""Requests that OpenTelemetry's environment variables exclude from tracing by URL."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Final

from latspan import _runtime
from latspan._warn_once import warn_once

__all__ = ["is_excluded"]

_ALL: Final = "OTEL_PYTHON_EXCLUDED_URLS"


def is_excluded(url: Callable[[], str], *libraries: str) -> bool | None:
    """
    Return whether a request is excluded: latspan then records nothing and adds no trace context.

    Args:
        url: Returns the URL; called only if a variable is set. The variables are read once per
            configuration.
        libraries: OpenTelemetry's names of the libraries that may have made the request, for
            example ``HTTPX`` in ``OTEL_PYTHON_HTTPX_EXCLUDED_URLS``. If one of these variables is
            set, ``OTEL_PYTHON_EXCLUDED_URLS`` does not apply.

    Returns:
        ``None`` if latspan is not configured: it records nothing then.

    Source: ``get_excluded_urls`` of ``opentelemetry.util.http``: regular expressions separated by
    commas, each searched for in the URL.
    """
    runtime = _runtime.current()
    if runtime is None:
        return None
    patterns = runtime.excluded_urls.get(libraries)
    if patterns is None:
        # Read once, because looking up an unset variable takes some microseconds.
        patterns = runtime.excluded_urls[libraries] = _read(libraries)
    if not patterns:
        return False
    searched = url()
    return any(pattern.search(searched) for pattern in patterns)


def _read(libraries: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    specific = [f"OTEL_PYTHON_{library}_EXCLUDED_URLS" for library in libraries]
    names = [name for name in specific if name in os.environ] or [_ALL]
    return tuple(pattern for name in names for pattern in _patterns(name, os.environ.get(name, "")))


def _patterns(name: str, expressions: str) -> Iterator[re.Pattern[str]]:
    for expression in filter(None, map(str.strip, expressions.split(","))):
        try:
            yield re.compile(expression)
        except re.error as error:
            warn_once(f"{name} is partly ignored: '{expression}' is not a pattern: {error}")
