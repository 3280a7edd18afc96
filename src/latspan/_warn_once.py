"""Warnings that a process logs only once, however often they apply."""

from __future__ import annotations

from typing import Final

from latspan._log import logger

__all__ = ["warn_once", "warnings_given"]

_given: Final[set[str]] = set()
_messages: Final[list[str]] = []
"""Messages that are the same each time; one that differs may quote a value of the application."""


def warn_once(
    message: str, error: BaseException | None = None, *, about: str | None = None
) -> None:
    """
    Log a warning, unless this process has already logged it.

    Args:
        message: Text of the warning.
        error: Cause, logged with its traceback.
        about: Key by which repeats are recognised, for a message that differs each time; the
            message if not given.
    """
    once = about or message
    if once not in _given:
        _given.add(once)
        if about is None:
            _messages.append(message)
        logger.warning("%s", message, exc_info=error)


def warnings_given() -> tuple[str, ...]:
    """Return the warnings that this process has logged, except those that differ each time."""
    return tuple(_messages)
