"""Who provides what an SDK's client asks for."""

from __future__ import annotations

import functools

__all__ = ["provider_of"]


@functools.cache
def provider_of(client_class: type) -> str:
    """Return the conventions' name of who answers clients of a class."""
    azure = any("Azure" in cls.__name__ for cls in client_class.__mro__)
    return "azure.ai.openai" if azure else "openai"
