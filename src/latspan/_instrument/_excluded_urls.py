"""Requests that OpenTelemetry's variables exclude from tracing, by their URL."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Final

from latspan import _runtime
from latspan._warn_once import warn_once

__all__ = ["is_excluded"]

_ALL: Final = "OTEL_PYTHON_EXCLUDED_URLS"


def is_excluded(url: Callable[[], str], *libraries: str) -> bool:
    """
    Return whether a request has no span, no values and no trace context of ours.

    Args:
        url: Returns its URL; called only if anything is excluded. The variables are read when
            latspan has been configured.
        libraries: What OpenTelemetry calls the libraries that the request may be of, as
            ``HTTPX`` in ``OTEL_PYTHON_HTTPX_EXCLUDED_URLS``. If one of these variables is set,
            ``OTEL_PYTHON_EXCLUDED_URLS`` does not apply.

    Source: ``get_excluded_urls`` of ``opentelemetry.util.http``: regular expressions with commas
    between them, each searched for in the URL.
    """
    runtime = _runtime.current()
    if runtime is None:
        return False
    patterns = runtime.excluded_urls.get(libraries)
    if patterns is None:
        # Once, because a variable that is not set takes some microseconds to look for.
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
            warn_once(f"{name} is ignored in part: '{expression}' is not a pattern: {error}")
