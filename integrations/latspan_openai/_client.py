"""Who provides what an SDK's client asks for."""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["provider_of"]


def provider_of(client: Any) -> str:
    """Return the conventions' name of who answers ``client``."""
    return _provider_of_class(client.__class__)


@functools.cache
def _provider_of_class(client_class: type) -> str:
    azure = any("Azure" in cls.__name__ for cls in client_class.__mro__)
    return "azure.ai.openai" if azure else "openai"
