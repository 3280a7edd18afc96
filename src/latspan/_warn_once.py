"""Warnings that a process gives once, however often there is reason to."""

from __future__ import annotations

from typing import Final

from latspan._log import logger

__all__ = ["warn_once"]

_given: Final[set[str]] = set()


def warn_once(
    message: str, error: BaseException | None = None, *, about: str | None = None
) -> None:
    """
    Log a warning, unless this process did before.

    Args:
        message: What is to be said.
        error: Why, with its traceback.
        about: What is warned of once, where the message differs each time.
    """
    once = about or message
    if once not in _given:
        _given.add(once)
        logger.warning("%s", message, exc_info=error)
