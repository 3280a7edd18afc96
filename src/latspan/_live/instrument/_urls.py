"""
URLs of requests: their parts, read from the objects of client libraries, and which are excluded.

OpenTelemetry's environment variables exclude requests from tracing by URL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from latspan._base.log import warn_once
from latspan._live.operations import SentRequest
from latspan._live.process.runtime import current_runtime

_ALL: Final = "OTEL_PYTHON_EXCLUDED_URLS"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def port_of(scheme: str, port: int | None) -> int:
    """Return ``port``, or the default port of ``scheme`` if the URL has none."""
    return port or _DEFAULT_PORTS.get(scheme, 443)


@lru_cache(maxsize=64)
def address_of(url: str) -> tuple[str, int] | None:
    """Return host and port of a URL, ``None`` if it has no host or is not valid."""
    try:
        parts = urlsplit(url)
        return (
            None if parts.hostname is None else (parts.hostname, port_of(parts.scheme, parts.port))
        )
    except ValueError:
        return None


def sent_request(request: Any) -> SentRequest:
    """Return the method, URL parts and body of an httpx or httpx2 request."""
    url = request.url
    # httpx has no public attribute for a body that may not be in memory.
    body: object = getattr(request, "_content", None)
    if body is None:
        # The request of a redirect has only the stream of the first one.
        body = getattr(request.stream, "_stream", None)
    return SentRequest(
        request=request,
        method=request.method,
        scheme=url.scheme,
        host=url.host,
        # As `port_of`, written out because this runs for each request.
        port=url.port or _DEFAULT_PORTS.get(url.scheme, 443),
        path=url.raw_path.partition(b"?")[0].decode("ascii"),
        body=body if isinstance(body, bytes) else None,
    )


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
    runtime = current_runtime()
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
