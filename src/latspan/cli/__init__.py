"""
Command line ``latspan``: data on stdout, everything else on stderr.

Slow imports happen inside the subcommands, so that ``--help`` responds immediately.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from latspan._base.shown import location, printable
from latspan._base.spelling import nearest
from latspan._study.answer import ExitCode
from latspan._version import __version__
from latspan.cli import (
    _capacity,
    _compare,
    _convert,
    _demo,
    _diagnose,
    _doctor,
    _document,
    _histogram,
    _init,
    _measure,
    _report,
    _run,
    _scorecard,
    _status,
    _sweep,
    _verify,
)
from latspan.cli._command import Command
from latspan.cli._console import (
    OutputError,
    deliver_output,
    escape_unencodable,
    print_message,
    silence_output,
)
from latspan.cli._results import known_paths
from latspan.cli._signals import INTERRUPTED, TERMINATED, Terminated, interrupts_raise
from latspan.errors import (
    HistogramFormatError,
    HistogramPrecisionError,
    LatspanError,
    RecordingError,
)

__all__ = ["main"]

_COMMANDS: Final[tuple[Command, ...]] = (
    _demo.COMMAND,
    _run.COMMAND,
    _report.COMMAND,
    _doctor.COMMAND,
    _init.COMMAND,
    _status.COMMAND,
    _measure.COMMAND,
    _diagnose.COMMAND,
    _scorecard.COMMAND,
    _convert.COMMAND,
    _compare.COMMAND,
    _verify.COMMAND,
    _document.COMMAND,
    _capacity.COMMAND,
    _sweep.COMMAND,
    _histogram.COMMAND,
)

_USAGE: Final = 2
_UNREADABLE: Final = (HistogramFormatError, HistogramPrecisionError, RecordingError)
_PIPE_CLOSED: Final = 1
_WITHOUT_NAME: Final = tuple(
    f"arguments are required: {name}" for name in ("NAME", "TARGET", "SOURCE", "NAME|RECORDING")
)
"""Ends of argparse's message about a missing argument that can name an inference path."""
_INVALID_CHOICE: Final = re.compile(
    r"invalid choice: (['\"])(?P<given>.*)\1 \(choose from (?P<choices>.*)\)$"
)
"""argparse's message about a command or a value that is not one of the choices."""
_NOT_WRITTEN: Final = 74
"""Exit code if stdout cannot be written: ``EX_IOERR`` of ``sysexits.h``."""

_DESCRIPTION: Final = """\
latspan shows where the time of an LLM request went, segment by segment:
connection, queue, prefill, decode and the rest. Each segment is measured,
reported by the server, estimated or unknown. The segments sum exactly to the
total time."""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run ``latspan`` and return its exit code.

    Args:
        argv: Command line after ``latspan``; ``None`` uses the process's own.

    Returns:
        0: success. 1: telemetry does not arrive or a library cannot be instrumented (``doctor``),
        or the reader of stdout has closed it. 2: the command line, a setting or a path is invalid.
        4: a log file or a recording cannot be interpreted, or every request of ``demo`` failed.
        74: writing to stdout failed. 126, 127: ``run`` or ``doctor`` cannot execute or find the
        program; otherwise the program replaces this process (``run``), or its exit code is returned
        (``doctor``).
        130: Ctrl-C. 143: SIGTERM.

    Raises:
        SystemExit: From ``--help`` (0), ``--version`` (0) and a command line that cannot be
            parsed (2).
    """
    escape_unencodable()
    try:
        try:
            return _exit_code_of(argv)
        finally:
            # Also flushes the output of argparse, which ignores write errors.
            deliver_output()
    except OutputError as error:
        silence_output()
        print_message(f"error: cannot write to standard output: {error}")
        return _NOT_WRITTEN
    except BrokenPipeError:
        # The reader of stdout closed it on purpose, for example `head`.
        silence_output()
        return _PIPE_CLOSED


def _exit_code_of(argv: Sequence[str] | None) -> int:
    parser = _parser()
    arguments, unknown = parser.parse_known_args(argv)
    command: Command | None = arguments.command
    if unknown:
        used: argparse.ArgumentParser = parser if command is None else arguments.subparser
        used.error(_unrecognized(unknown, used))
    if command is None:
        parser.print_help(sys.stderr)
        return _USAGE
    try:
        # Kept with a result. If another program calls main(), `sys.argv` is that program's.
        arguments.words = sys.argv[1:] if argv is None else list(argv)
        with interrupts_raise():
            return command.run(arguments)
    except LatspanError as error:
        for number, line in enumerate(error.message.split("\n")):
            print_message(line if number else f"error: {line}")
        if error.hint is not None:
            print_message(f"hint: {error.hint}")
        unreadable = isinstance(error, _UNREADABLE) and not _is_missing(error)
        return ExitCode.NOT_INTERPRETABLE if unreadable else _USAGE
    except OSError as error:
        # A path that the system refuses, for example because it is too long.
        name: object = error.filename
        if name is None:
            raise
        print_message(f"error: {location(str(name))}: {error.strerror or error}")
        return _USAGE
    except Terminated:
        print_message("terminated")
        return TERMINATED
    except KeyboardInterrupt:
        print_message("interrupted")
        return INTERRUPTED


def _is_missing(error: LatspanError) -> bool:
    """Return whether there is nothing at the path: the command line is wrong, and not a file."""
    cause = error.__cause__
    return isinstance(cause, FileNotFoundError) and not os.path.lexists(cause.filename or "")


class _Parser(argparse.ArgumentParser):
    """
    Parser that removes control characters from the command line that its error messages quote.

    The options of a command are added when the command is chosen, because some need slow imports.
    """

    command: Command | None = None

    def parse_known_args(self, *args: Any, **keywords: Any) -> tuple[Any, list[str]]:
        """Add the options of the command, and parse."""
        if self.command is not None:
            self.command.add_arguments(self)
            self.set_defaults(command=self.command, subparser=self)
            self.command = None
        return super().parse_known_args(*args, **keywords)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        if message.endswith(_WITHOUT_NAME):
            message = f"{message}; {known_paths()}"
        elif found := _INVALID_CHOICE.search(message):
            # Up to Python 3.13, the choices are in quotes.
            choices = re.findall(r"[\w-]+", found["choices"])
            message += _meant(found["given"], choices)
        super().error(printable(message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="latspan",
        description=_DESCRIPTION,
        epilog=_examples(
            [example for command in _COMMANDS for example in command.examples[:2]]
            + [("latspan demo --help", "all options of one command")]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"latspan {__version__}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        subparser = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog=_examples(command.examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            # The values to hide in a command line that is kept are found by the whole option.
            allow_abbrev=False,
        )
        subparser.command = command
    return parser


def _unrecognized(unknown: list[str], parser: argparse.ArgumentParser) -> str:
    """Return the error about unknown arguments, with the option that was probably meant."""
    # The parser has no public list of its options.
    options = set(re.findall(r"(?<!\S)--[a-z-]+", parser.format_help()))
    given = unknown[0].partition("=")[0]
    hint = f": put {given} after the command" if given in options else _meant(given, options)
    # A value of an unknown option may be a key, so only the option is shown.
    named = [each.partition("=")[0] for each in unknown if each.startswith("-")]
    return f"unrecognized arguments: {' '.join(named or map(location, unknown))}{hint}"


def _meant(given: str, known: Iterable[str]) -> str:
    """Return the question whether the most similar name was meant; empty if there is none."""
    meant = nearest(given, known)
    return f": did you mean {meant}?" if meant else ""


def _examples(examples: Iterable[tuple[str, str]]) -> str:
    return "\n".join(["examples:", *(f"  {line}\n      {purpose}" for line, purpose in examples)])
