"""
latspan's one logger: whatever a line quotes, it is fit to be shown.

Lines quote what receivers, servers and exceptions say. The filter is the logger's own, so that no
handler gets a record before it: each value that is put into a line, and each line of a traceback,
goes through :func:`latspan._shown.foreign`. The exception itself stays with the record.
"""

from __future__ import annotations

import logging
import traceback
from typing import Final

from latspan._shown import foreign

__all__ = ["logger", "make_fit"]

_MOST_LINES: Final = 200
"""Lines of a traceback that are logged: the last ones, which name the error."""

logger: Final = logging.getLogger("latspan")


def make_fit(record: logging.LogRecord) -> bool:
    """Make what a record quotes fit to be shown; as a filter, let it through."""
    if isinstance(record.args, tuple) and record.args:
        record.args = tuple(map(_fit, record.args))
    else:
        record.msg, record.args = _fit(record.getMessage()), None
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and record.exc_text is None:
        record.exc_text = _traceback_of(error)
    return True


def _fit(value: object) -> object:
    """Return what is logged in the place of a value; a number stays one."""
    if value is None or isinstance(value, int | float):
        return value
    try:
        # An error of latspan's has a hint, on a line of its own elsewhere.
        return foreign(str(value).replace("\nhint: ", "; hint: "))
    except Exception:  # noqa: BLE001 - whatever an exception of others raises when it is printed
        return f"<{type(value).__name__} that cannot be printed>"


def _traceback_of(error: BaseException) -> str:
    """
    Return a traceback whose lines are fit to be shown.

    A message of several lines stands on one: its next line could look like another record.
    """
    lines: list[str] = []
    for part in traceback.format_exception(error):
        is_frame = part.startswith((" ", "\n"))
        lines += part.splitlines() if is_frame else [part.rstrip("\n")]
    return "\n".join(foreign(line) for line in lines[-_MOST_LINES:])


if make_fit not in logger.filters:
    logger.addFilter(make_fit)
