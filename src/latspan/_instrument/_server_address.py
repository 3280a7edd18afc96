"""Where a client says that it sends to, and what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from latspan._operations import SentRequest

__all__ = ["body_asked", "port_of", "sent_request", "server_of"]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def port_of(scheme: str, port: int | None) -> int:
    """Return ``port``, or the port of ``scheme`` where a URL says none."""
    return port or _DEFAULT_PORTS.get(scheme, 443)


def server_of(client: Any) -> tuple[str, int] | None:
    """Return where the client of a Stainless SDK sends to, ``None`` where it does not say."""
    # What the property of that name returns, which in openai 3 imports a module to do so.
    url = getattr(client, "_base_url", None) or getattr(client, "base_url", None)
    host: str | None = getattr(url, "host", None)
    if not host:
        return None
    port: int | None = getattr(url, "port", None)
    return host, port_of(getattr(url, "scheme", ""), port)


def sent_request(request: Any) -> SentRequest:
    """Return what a request of httpx's, or of httpx2's, sends."""
    url = request.url
    # There is no public way to ask for a body that may not be in memory.
    body: object = getattr(request, "_content", None)
    return SentRequest(
        request=request,
        method=request.method,
        scheme=url.scheme,
        host=url.host,
        port=port_of(url.scheme, url.port),
        path=url.raw_path.partition(b"?")[0].decode("ascii"),
        body=body if isinstance(body, bytes) else None,
    )


def body_asked(options: Any) -> Mapping[str, Any]:
    """Return the JSON body of a request of a Stainless SDK, with what its caller adds to it."""
    parts = (options.json_data, getattr(options, "extra_json", None))
    body: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, Mapping):
            body |= cast("Mapping[str, Any]", part)
    return body
