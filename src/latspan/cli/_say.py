"""
What leaves a command: data to stdout, and what is said to the person at the terminal to stderr.

Either may be a full disk, a pipe whose reader has gone, closed, or a terminal that does not have
every character. Data that cannot be written is an error, what is said to a person is not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Final, TextIO

from latspan._shown import printable

__all__ = [
    "OutputError",
    "deliver_output",
    "escape_what_has_no_code",
    "output",
    "say",
    "silence_output",
]

_LONGEST: Final = 4_000


class OutputError(Exception):
    """Data could not be written to stdout."""


@contextmanager
def output() -> Generator[TextIO]:
    """
    Yield stdout, and have what was written to it delivered at the end of the block.

    Raises:
        OutputError: It is closed, or what it leads to takes no more.
        BrokenPipeError: Whoever read it has enough.
    """
    # Python has none where it was closed before the process began.
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
    Have delivered what was written to stdout, if there is one.

    Raises:
        OutputError: What it leads to takes no more.
        BrokenPipeError: Whoever read it has enough.
    """
    if sys.stdout is not None and not sys.stdout.closed:
        with output():
            pass


def say(line: str) -> None:
    """Print a line to stderr, at once: stdout may be a file or a pipe of its own pace."""
    stderr: TextIO | None = sys.stderr
    # Without one, print() would write to stdout.
    if stderr is not None:
        try:
            print(printable(line, longest=_LONGEST), file=stderr, flush=True)
        except (OSError, ValueError):
            _silence(stderr)


def escape_what_has_no_code() -> None:
    """Have characters that stdout's encoding lacks escaped, as stderr has them escaped already."""
    stdout: TextIO | None = sys.stdout
    if isinstance(stdout, TextIOWrapper):
        stdout.reconfigure(errors="backslashreplace")


def silence_output() -> None:
    """Throw away what stdout did not take."""
    stdout: TextIO | None = sys.stdout
    if stdout is not None:
        _silence(stdout)


def _silence(stream: TextIO) -> None:
    # Python's own flush at exit would complain of what is left, and end with a code of its own.
    with suppress(OSError, ValueError):
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
