"""Server address and request data, read from the objects of client libraries."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from latspan._operations import SentRequest

__all__ = ["address_of", "port_of", "sent_request"]

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
