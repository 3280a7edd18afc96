"""Server address and request data, read from the objects of client libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from latspan._operations import SentRequest

__all__ = ["port_of", "requested_body", "sent_request", "server_of"]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def port_of(scheme: str, port: int | None) -> int:
    """Return ``port``, or the default port of ``scheme`` if the URL has none."""
    return port or _DEFAULT_PORTS.get(scheme, 443)


def server_of(client: Any) -> tuple[str, int] | None:
    """Return host and port of a Stainless SDK's client, ``None`` if the client has no base URL."""
    # The private attribute is tried first, because the property `base_url` of openai 3 imports a
    # module.
    url = getattr(client, "_base_url", None) or getattr(client, "base_url", None)
    host: str | None = getattr(url, "host", None)
    if not host:
        return None
    port: int | None = getattr(url, "port", None)
    return host, port or _DEFAULT_PORTS.get(getattr(url, "scheme", ""), 443)


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


def requested_body(options: Any) -> Mapping[str, Any]:
    """Return the JSON body of a Stainless SDK's request, with the caller's extra fields."""
    parts = (options.json_data, getattr(options, "extra_json", None))
    body: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, Mapping):
            body |= cast("Mapping[str, Any]", part)
    return body
