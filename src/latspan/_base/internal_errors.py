"""
Internal errors of latspan: an application never receives an exception that is not its own.

They are logged, each once per type and place. In tests of latspan they are raised.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

from latspan._base.log import logger

_reported: Final[set[tuple[type[BaseException], str]]] = set()
_raises = False


def raise_internal_errors(enabled: bool) -> None:
    """Raise internal errors instead of logging them, or stop that; for tests of latspan."""
    global _raises
    _raises = enabled


def log_internal_error(error: Exception, doing: str) -> None:
    """Log an internal error once per type and place; in tests of latspan, raise it."""
    if _raises:
        raise error
    key = (type(error), doing)
    if key not in _reported:
        _reported.add(key)
        logger.error("latspan failed at %s; the call is not affected", doing, exc_info=error)


class handle_internal_errors:  # noqa: N801 - read as a statement: `with handle_internal_errors("…"):`
    """
    Context manager that keeps an internal error of latspan from reaching the application.

    Args:
        doing: The action inside the block, for the log.
    """

    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        log_internal_error(error, self._doing)
        return True
