"""``latspan run``: runs any program, unchanged, with instrumentation."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
from typing import Final

from latspan.cli._command import Command
from latspan.cli._console import print_message

__all__ = ["COMMAND", "explain_missing", "program_after_dashes", "replace_process"]

_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127

_DESCRIPTION: Final = """\
Replaces this process with a program, and instruments every supported client
library that the program imports. The program is not changed: it keeps its
arguments, exit code, signals, standard input and standard output. Python
programs that it starts are instrumented too, and so are the workers of a server.

Settings come from the environment:

  LATSPAN_ENDPOINT, or OTEL_EXPORTER_OTLP_ENDPOINT   address of the OTLP receiver
  LATSPAN_SERVICE_NAME, or OTEL_SERVICE_NAME         service name of the program
  LATSPAN_DISABLED_INSTRUMENTATIONS                  integrations to leave off
  OTEL_SDK_DISABLED=true                             switches latspan off

All other LATSPAN_* and OTEL_* variables apply too. Settings that the program
itself passes to latspan.configure() override them."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [-h] [--] PROGRAM [ARGUMENT ...]"
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM [ARGUMENT ...]",
        help="the program and its arguments",
    )
    parser.set_defaults(complain=parser.error)


def _run(arguments: argparse.Namespace) -> int:
    program = program_after_dashes(arguments.program)
    if not program:
        arguments.complain("no program given; for example: latspan run -- python app.py")

    path = shutil.which(program[0])
    if path is None:
        return explain_missing(program[0])
    return replace_process(path, program)


def program_after_dashes(program: list[str]) -> list[str]:
    """Return a command line without the ``--`` that separates it from latspan's own options."""
    return program[1:] if program[:1] == ["--"] else program


def replace_process(path: str, program: list[str], **variables: str) -> int:
    """
    Replace this process with an instrumented program; return only if that fails.

    Args:
        path: File of the program.
        program: Its name and its arguments.
        variables: Environment variables to set for it.

    Returns:
        Exit code.
    """
    from latspan._sdk._zero_code import environment_for

    environment = environment_for({**os.environ, **variables}, os.getpid())
    # Python ignores these signals, and the program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, program, environment)  # noqa: S606 - running it is the purpose
    except OSError as error:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        print_message(f"error: '{path}' cannot be run: {error.strerror}")
        return _NOT_EXECUTABLE


def explain_missing(name: str) -> int:
    """Print why no program is called ``name``, and return the exit code."""
    if os.path.dirname(name) and os.path.exists(name):  # noqa: PTH110, PTH120
        print_message(f"error: '{name}' is not executable")
        if name.endswith(".py"):
            print_message(f"hint: latspan run -- python {name}")
        return _NOT_EXECUTABLE
    print_message(f"error: program not found: '{name}'")
    if os.path.exists(name):  # noqa: PTH110
        print_message(f"hint: latspan run -- python {name}")
    return _NOT_FOUND


COMMAND: Final = Command(
    name="run",
    summary="run any program with instrumentation",
    description=_DESCRIPTION,
    examples=(
        (
            "latspan run -- python app.py",
            "run a program unchanged, with its model calls instrumented",
        ),
        (
            "OTEL_SERVICE_NAME=shop latspan run -- gunicorn shop:app",
            "run a server and its workers, with a service name",
        ),
        ("latspan run -- python -m pytest", "run a module with its own arguments"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
