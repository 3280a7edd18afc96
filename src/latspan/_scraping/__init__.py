"""
What happens around a request: what its server said meanwhile, and how the process fared.

Samples are taken on threads of their own and looked up when a request has ended. Nothing here
knows requests, spans or how they are exported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._lazy import lazy_getattr
from latspan._scraping._addresses import Address, address_of

if TYPE_CHECKING:
    from latspan._scraping._prometheus import require_parser
    from latspan._scraping._sources import Surroundings

__all__ = ["Address", "Surroundings", "address_of", "require_parser"]

_ON_REQUEST: Final = {"Surroundings": "_sources", "require_parser": "_prometheus"}

__getattr__ = lazy_getattr(__name__, _ON_REQUEST)
