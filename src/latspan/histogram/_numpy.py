"""
Access to numpy if the application has loaded it.

latspan never imports numpy. In an application that does not use it, the import would cost a tenth
of a second and 30 MB, to save a tenth of a microsecond per value.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

PAYS_FROM: Final = 96
"""Number of values from which a numpy call is faster than a loop."""


def loaded_numpy() -> ModuleType | None:
    """Return numpy if it has been imported completely, otherwise ``None``."""
    numpy = sys.modules.get("numpy")
    # While another thread imports numpy, the module is in `sys.modules` but incomplete.
    spec = getattr(numpy, "__spec__", None)
    return None if getattr(spec, "_initializing", True) else numpy
