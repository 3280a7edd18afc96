"""Names that are fetched when they are first used, so that nobody pays for what they do not use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["fetched_when_used"]


def fetched_when_used(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """
    Return a package's ``__getattr__``.

    Args:
        package: Its name.
        homes: Which of its modules each name is from.
    """

    def fetch(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return fetch
