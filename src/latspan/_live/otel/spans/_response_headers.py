"""
Response headers that name the replica, cache, gateway or region that answered.

Requests are grouped by them, so a value must name a place and never identify one request. Headers
are untrusted text, and a server may put a secret into any of them. So only listed headers and those
that the configuration names are read, values are cut, and a value that may be a key or contain
credentials is not recorded.

Times in headers, for example ``x-envoy-upstream-service-time``, are evidence and are not read here.

Source: Envoy, "Router", HTTP headers and debug headers; Fastly and Amazon CloudFront, "Response
headers"; Cloudflare, "HTTP headers".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from latspan import semconv
from latspan._base import shown as _shown
from latspan._live.otel.spans._span import AttributeValue

_RAY: Final = "cf-ray"

RESPONSE_HEADERS: Final = frozenset(
    {
        *("x-served-by", "x-backend", "x-backend-server", "x-upstream"),
        *("x-replica", "x-pod", "x-pod-name", "x-instance", "x-node"),
        *("x-envoy-cluster", "x-envoy-upstream-cluster", "x-envoy-decorator-operation"),
        *("x-envoy-upstream-host", "x-envoy-upstream-hostname", "x-envoy-upstream-host-address"),
        *("x-cache", "x-cache-status", "cf-cache-status"),
        *(_RAY, "x-amz-cf-pop", "x-ms-region", "x-groq-region"),
    }
)
"""Names of the headers that are always recorded, in lower case."""

_MAX_LENGTH: Final = 64
"""Maximum number of characters of a value."""

_MAX_READ: Final = 1_024
"""Number of characters above which a header is not read."""

_DATA_CENTRE: Final = re.compile(r"[0-9a-f]+-([A-Z]{3})")
"""Value of ``cf-ray``: an id of the request, which is not recorded, and its data centre."""

_LIKE_A_KEY: Final = re.compile(r"[A-Za-z0-9+_=]{32,}|\b(?:sk|gsk|pk)[-_][\w.-]{6,}|\beyJ\w{6,}")
"""Part of a value that may be a key or an id: the name of a host has separators."""

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,64}")
"""Name of a header in lower case. Source: RFC 9110, section 5.6.2 (tokens)."""

_NEVER: Final = frozenset({"location", "content-location", "link", "refresh"})
"""Headers whose values may contain the query of an address."""


def is_recordable(name: str) -> bool:
    """Return whether a header may be recorded; ``name`` is in lower case."""
    return (
        _NAME.fullmatch(name) is not None
        and name not in _NEVER
        and "authenticat" not in name
        and not _shown.is_secret(name)
    )


def header_attributes(
    headers: Mapping[str, str], further: frozenset[str]
) -> dict[str, AttributeValue]:
    """
    Return the recorded headers as span attributes.

    Args:
        headers: Response headers, names in lower case.
        further: Names of further headers to record.

    Source: OpenTelemetry HTTP conventions, ``http.response.header.<key>``.
    """
    attributes: dict[str, AttributeValue] = {}
    for name in sorted((RESPONSE_HEADERS | further).intersection(headers)):
        value = _recorded(name, headers[name])
        if value is not None:
            attributes[semconv.HTTP_RESPONSE_HEADER_PREFIX + name] = (value,)
    return attributes


# A process has few replicas, and each response names one of them.
@lru_cache(maxsize=256)
def _recorded(name: str, value: object) -> str | None:
    """Return what is recorded of a header; ``None`` if nothing is."""
    if not isinstance(value, str) or len(value) > _MAX_READ:
        return None
    text = value.strip()
    if name == _RAY:
        found = _DATA_CENTRE.fullmatch(text)
        return None if found is None else found[1]
    if not text or not text.isascii() or _shown.foreign(text) != text or _LIKE_A_KEY.search(text):
        return None
    return text[:_MAX_LENGTH]
