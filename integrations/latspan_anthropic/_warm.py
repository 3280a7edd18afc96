"""Set-up work that a client of the SDK does in its first call, done in advance."""

from __future__ import annotations

from typing import Any

from anthropic._base_client import AsyncAPIClient, SyncAPIClient

from latspan.integrations import UnderlyingClient

__all__ = ["underlying_client"]


def underlying_client(client: Any) -> UnderlyingClient | None:
    """Return the HTTP client that a client of the SDK sends through, ``None`` for any other."""
    if not isinstance(client, SyncAPIClient | AsyncAPIClient):
        return None

    def prepare() -> None:
        # The SDK imports its resources and detects the platform at their first use.
        getattr(client, "messages", None)
        client.platform_headers()

    return UnderlyingClient(client._client, str(client.base_url), prepare)  # pyright: ignore[reportPrivateUsage] - there is no public way to it
