"""
Lazy imports: a package imports a name on its first use, so that importing the package is cheap.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_getattr(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """
    Return the ``__getattr__`` of a package, which imports a name on first use.

    Args:
        package: Name of the package.
        homes: Module of each name: one of the package's own, or an absolute ``latspan.`` name.
    """

    def fetch(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module = home if home.startswith("latspan.") else f"{package}.{home}"
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return fetch
