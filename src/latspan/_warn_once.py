"""Warnings that a process gives once, however often there is reason to."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["warn_once"]

_logger: Final = logging.getLogger("latspan")
_given: Final[set[str]] = set()


def warn_once(message: str, error: BaseException | None = None) -> None:
    """
    Log a warning, unless this process did before.

    Args:
        message: What is to be said.
        error: Why, with its traceback.
    """
    if message not in _given:
        _given.add(message)
        _logger.warning("%s", message, exc_info=error)
