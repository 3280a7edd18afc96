"""The provider that serves the requests of a client of the SDK."""

from __future__ import annotations

import functools

__all__ = ["provider_of"]


@functools.cache
def provider_of(client_class: type) -> str:
    """Return the semantic conventions' name of the provider for a class of clients."""
    azure = any("Azure" in cls.__name__ for cls in client_class.__mro__)
    return "azure.ai.openai" if azure else "openai"
