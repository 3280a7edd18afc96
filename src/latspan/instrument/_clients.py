"""What the client of a Stainless SDK says of itself."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["server_of"]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def server_of(client: Any) -> tuple[str, int] | None:
    """Return the host and port that ``client`` sends to, ``None`` where it does not say."""
    url = getattr(client, "base_url", None)
    host: str | None = getattr(url, "host", None)
    if not host:
        return None
    port: int | None = getattr(url, "port", None)
    return host, port or _DEFAULT_PORTS.get(getattr(url, "scheme", ""), 443)
