"""
Samples of model servers and of this process, taken while requests run.

Samples are taken on separate threads and looked up when a request has ended. This package does not
depend on requests, spans or their export.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._base.lazy import lazy_getattr
from latspan._live.scraping._addresses import Address, address_of

if TYPE_CHECKING:
    from latspan._live.scraping._pages import require_parser
    from latspan._live.scraping._sources import Monitor

__all__ = ["Address", "Monitor", "address_of", "require_parser"]

_ON_REQUEST: Final = {"Monitor": "_sources", "require_parser": "_pages"}

__getattr__ = lazy_getattr(__name__, _ON_REQUEST)
