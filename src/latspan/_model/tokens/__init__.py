"""
Token counts with their source; the provider's own count is preferred.

Local counting is opt-in, never runs on a thread of the application, and its results are marked as
estimated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan._base.lazy import lazy_getattr
from latspan._model.tokens._counts import (
    UNKNOWN_TOKENS,
    TokenCounts,
    TokenSource,
    counted_by_provider,
)

if TYPE_CHECKING:
    from latspan._model.tokens._encodings import Encoding, encoding, encodings
    from latspan._model.tokens._estimate import Estimator

__all__ = [
    "UNKNOWN_TOKENS",
    "Encoding",
    "Estimator",
    "TokenCounts",
    "TokenSource",
    "counted_by_provider",
    "encoding",
    "encodings",
]

# The tokenizer is imported only if the application opts in to estimates.
__getattr__ = lazy_getattr(
    __name__,
    {
        "Encoding": "_encodings",
        "Estimator": "_estimate",
        "encoding": "_encodings",
        "encodings": "_encodings",
    },
)
