"""Clients and request options of the SDKs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from latspan.integrations import UnderlyingClient

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def server_of(client: Any) -> tuple[str, int] | None:
    """Return host and port of a client's server, ``None`` if the client has no base URL."""
    # The private attribute is tried first, because the property `base_url` of openai 3 imports a
    # module.
    url = getattr(client, "_base_url", None) or getattr(client, "base_url", None)
    host: str | None = getattr(url, "host", None)
    if not host:
        return None
    port: int | None = getattr(url, "port", None)
    return host, port or _DEFAULT_PORTS.get(getattr(url, "scheme", ""), 443)


def requested_body(options: Any) -> Mapping[str, Any]:
    """Return the JSON body of a request, with the caller's extra fields."""
    parts = (options.json_data, getattr(options, "extra_json", None))
    body: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, Mapping):
            body |= cast("Mapping[str, Any]", part)
    return body


def underlying_client(client: Any, resources: str) -> UnderlyingClient:
    """
    Return the HTTP client that a client of an SDK sends through.

    Args:
        client: A client of the SDK.
        resources: Attributes of the client, separated by dots, that the SDK imports at first use.
    """

    def prepare() -> None:
        found = client
        for name in resources.split("."):
            found = getattr(found, name, None)
        # The SDK detects the platform at the first use too.
        client.platform_headers()

    # There is no public attribute for the HTTP client.
    return UnderlyingClient(client._client, str(client.base_url), prepare)
