"""What an SDK's client says of itself: who provides, and where it sends."""

from __future__ import annotations

import functools
from typing import Any, Final

__all__ = ["provider_of", "server_of"]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def provider_of(client: Any) -> str:
    """Return the conventions' name of who answers ``client``."""
    return _provider_of_class(client.__class__)


@functools.cache
def _provider_of_class(client_class: type) -> str:
    azure = any("Azure" in cls.__name__ for cls in client_class.__mro__)
    return "azure.ai.openai" if azure else "openai"


def server_of(client: Any) -> tuple[str, int] | None:
    """Return the host and port that ``client`` sends to, ``None`` where it does not say."""
    url = getattr(client, "base_url", None)
    host: str | None = getattr(url, "host", None)
    if not host:
        return None
    port: int | None = getattr(url, "port", None)
    return host, port or _DEFAULT_PORTS.get(getattr(url, "scheme", ""), 443)
