"""Check for the packages of the extra ``study``, which tables and analyses need."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from latspan.errors import MissingExtraError

_PACKAGES: Final = frozenset({"numpy", "orjson", "rich"})


@contextmanager
def needs_study() -> Generator[None]:
    """Run a block that imports modules of the extra; if one is missing, name the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _PACKAGES:
            raise
        raise MissingExtraError(package, extra="study") from error
