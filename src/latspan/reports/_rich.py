"""Check for ``rich``, the package of the extra ``study`` that draws on terminals."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from latspan.errors import MissingExtraError

__all__ = ["needs_rich"]


@contextmanager
def needs_rich() -> Generator[None]:
    """Run a block that imports modules which draw; if ``rich`` is missing, name its extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "rich":
            raise
        raise MissingExtraError("rich", extra="study") from error
