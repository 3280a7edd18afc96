"""
Output of a command: data on stdout, messages to the user on stderr.

Either stream may be closed, or be a file on a full disk, a pipe whose reader has closed it, or a
terminal that cannot show some characters. A failure to write data is an error; a failure to write a
message is ignored.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Final, TextIO

from latspan._base.shown import printable

_MAX_LINE_LENGTH: Final = 4_000


class OutputError(Exception):
    """Writing data to stdout failed."""


@contextmanager
def output() -> Generator[TextIO]:
    """
    Yield stdout, and flush it at the end of the block.

    Raises:
        OutputError: Stdout is closed, or its destination does not accept more data.
        BrokenPipeError: The reader of stdout has closed it.
    """
    # `sys.stdout` is `None` if it was closed before the process began.
    stdout: TextIO | None = sys.stdout
    if stdout is None or stdout.closed:
        raise OutputError("it is closed")
    try:
        yield stdout
        stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror or type(error).__name__) from error


def deliver_output() -> None:
    """
    Flush stdout, if there is one.

    Raises:
        OutputError: Its destination does not accept more data.
        BrokenPipeError: The reader of stdout has closed it.
    """
    if sys.stdout is not None and not sys.stdout.closed:
        with output():
            pass


def print_message(line: str) -> None:
    """Print a line to stderr and flush it: stdout may be a file or a slower pipe."""
    print_lines([printable(line, max_length=_MAX_LINE_LENGTH)])


def print_lines(lines: Iterable[str]) -> None:
    """Print lines that are printable to stderr and flush it."""
    stderr: TextIO | None = sys.stderr
    # Without stderr, print() would write to stdout.
    if stderr is not None:
        try:
            print("\n".join(lines), file=stderr, flush=True)
        except (OSError, ValueError):
            _silence(stderr)


def escape_unencodable() -> None:
    """Escape characters that stdout's encoding lacks, as Python already does for stderr."""
    stdout: TextIO | None = sys.stdout
    if isinstance(stdout, TextIOWrapper):
        stdout.reconfigure(errors="backslashreplace")


def on_terminal(line: str, stream: TextIO, *, hanging: int = 0) -> list[str]:
    """
    Return a line as lines that are as wide as the terminal; elsewhere, it is one line.

    Args:
        line: The line.
        stream: Where it is printed.
        hanging: Indentation of all lines but the first.
    """
    if not stream.isatty():
        return [line]
    width = shutil.get_terminal_size().columns
    # A path or a name is never broken.
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def silence_output() -> None:
    """Discard the data that stdout did not accept."""
    stdout: TextIO | None = sys.stdout
    if stdout is not None:
        _silence(stdout)


def _silence(stream: TextIO) -> None:
    # Python's own flush at exit would report the remaining data, and set its own exit code.
    with suppress(OSError, ValueError):
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
