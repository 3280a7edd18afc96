"""
Logger of latspan: every value in a log line is made safe to display.

A warning that may apply often is logged once per process, by :func:`warn_once`.

Log lines quote the text of receivers, servers and exceptions. The filter :func:`make_safe` is on
the logger itself, so it runs before any handler receives a record: each value in a line, except a
number, and each line of a traceback pass through :func:`latspan._base.shown.foreign`. The exception
object stays in the record unchanged.

In a program that configures no logging, Python prints the text of a warning alone. There, the lines
of latspan begin with its name.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Final

from latspan._base.shown import foreign

EXPORT_FAILED: Final = "exporting %s failed; they are kept, and dropped once the queue is full: %s"
EXPORT_REFUSED: Final = (
    "exporting %s failed; they are lost, because this error is permanent: %s;"
    " hint: check the address and the credentials with latspan doctor"
)
NOT_EXPORTED: Final = "Dropped %d %s that could not be exported before shutdown"
HISTOGRAMS_NOT_EXPORTED: Final = "Dropped histograms that could not be exported before shutdown"
"""Log lines about failed exports; the report of ``latspan doctor`` has their content too."""

_MAX_LINES: Final = 200
"""Maximum number of traceback lines that are logged: the last ones, which name the error."""

logger: Final = logging.getLogger("latspan")

_given: Final[set[str]] = set()
"""Warnings that were logged, by the keys of :func:`warn_once`."""

_messages: Final[list[str]] = []
"""Messages with a fixed text. Others are left out, because they may quote the application."""


def make_safe(record: logging.LogRecord) -> bool:
    """Make the values in a record safe to display; as a filter, return ``True``."""
    if isinstance(record.args, tuple) and record.args:
        record.args = tuple(map(_fit, record.args))
    else:
        record.msg, record.args = _fit(record.getMessage()), None
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and record.exc_text is None:
        record.exc_text = _traceback_of(error)
    return True


def _fit(value: object) -> object:
    """Return the text that is logged for a value; a number is returned unchanged."""
    if value is None or isinstance(value, int | float):
        return value
    try:
        # The text of a latspan error has its hint on a second line; a log line has only one line.
        return foreign(str(value).replace("\nhint: ", "; hint: "))
    except Exception:  # noqa: BLE001 - a foreign exception may raise anything when printed
        return f"<{type(value).__name__} that cannot be printed>"


def _traceback_of(error: BaseException) -> str:
    """
    Return a traceback whose lines are safe to display.

    A message of several lines is put on one line: its second line could look like another record.
    """
    lines: list[str] = []
    for part in traceback.format_exception(error):
        is_frame = part.startswith((" ", "\n"))
        lines += part.splitlines() if is_frame else [part.rstrip("\n")]
    return "\n".join(foreign(line) for line in lines[-_MAX_LINES:])


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


class _LastResort(logging.Handler):
    """Prints warnings where :data:`logging.lastResort` would, with the name of the logger."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record to standard error if no other handler receives it."""
        last = logging.lastResort
        if last is None or record.levelno < last.level or has_handlers():
            return
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001 - as every handler: standard error may be closed
            self.handleError(record)


def has_handlers() -> bool:
    """Return whether the program has configured a handler that receives latspan's lines."""
    own = any(not isinstance(each, _LastResort) for each in logger.handlers)
    return own or (logger.propagate and bool(logging.root.handlers))


if make_safe not in logger.filters:
    logger.addFilter(make_safe)
    _handler = _LastResort()
    _handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger.addHandler(_handler)
