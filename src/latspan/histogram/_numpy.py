"""
numpy, where the application has loaded it.

latspan never imports it: that would cost an application that does without it a tenth of a second
and 30 MB, to save a tenth of a microsecond a value.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["PAYS_FROM", "loaded_numpy"]

PAYS_FROM: Final = 96
"""How many values it takes until a numpy call is quicker than a loop."""


def loaded_numpy() -> ModuleType | None:
    """Return numpy if it is there, whole, already."""
    numpy = sys.modules.get("numpy")
    # While another thread is importing it, it is there and lacks most of what it will have.
    spec = getattr(numpy, "__spec__", None)
    return None if getattr(spec, "_initializing", True) else numpy
