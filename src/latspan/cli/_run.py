"""``latspan run``: runs any program, unchanged, with instrumentation."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from latspan._model.metrics import DEFAULT_EXPECTATIONS, Expectations
from latspan.cli._command import Command
from latspan.cli._console import print_message
from latspan.cli._supervisor import end_as, supervise
from latspan.errors import ConfigError, LatspanError
from latspan.reports._extra import needs_study

if TYPE_CHECKING:
    from latspan._model.recording.folder import Manifest

_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127

_DESCRIPTION: Final = """\
Runs a program, and instruments every supported client library that the program
imports. The program is not changed: it keeps its arguments, exit code, signals,
standard input and standard output. Python programs that it starts are
instrumented too, and so are the workers of a server. The program replaces this
process; with --report or --record, it is a child of this process.

Settings come from the environment:

  LATSPAN_ENDPOINT, or OTEL_EXPORTER_OTLP_ENDPOINT  address of the OTLP receiver
  LATSPAN_SERVICE_NAME, or OTEL_SERVICE_NAME        service name of the program
  LATSPAN_DISABLED_INSTRUMENTATIONS                 integrations to switch off
  OTEL_SDK_DISABLED=true                            switches latspan off

All other LATSPAN_* and OTEL_* variables apply too. Settings that the program
itself passes to latspan.configure() override them."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [-h] [--report] [--record FOLDER] [--] PROGRAM [ARGUMENT ...]"
    parser.add_argument(
        "--report",
        action="store_true",
        help="when the program ends, print on stderr where its requests spent their time",
    )
    parser.add_argument(
        "--record",
        metavar="FOLDER",
        help="record the program's requests in a new folder, for latspan report and other commands",
    )
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
        return explain_missing(program[0], command="run")
    if not arguments.report and arguments.record is None:
        return _become(path, program)
    return _run_to_end(path, program, record=arguments.record, report=arguments.report)


def program_after_dashes(program: list[str]) -> list[str]:
    """Return a command line without the ``--`` that separates it from latspan's own options."""
    return program[1:] if program[:1] == ["--"] else program


def _become(path: str, program: list[str]) -> int:
    """Replace this process by the program; return an exit code only if that fails."""
    from latspan._live.sdk._zero_code import environment_for

    environment = environment_for(dict(os.environ), becomes=True)
    # Python ignores these signals, and the program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, program, environment)  # noqa: S606 - running it is the purpose
    except OSError as error:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        return explain_error(path, error)


def _run_to_end(path: str, program: list[str], *, record: str | None, report: bool) -> int:
    """Run the program to its end, record it, print the report, and end as the program ended."""
    from latspan._live.sdk._zero_code import environment_for
    from latspan._model.recording.folder import begin_recording

    if report:
        # First, because a missing package is reported before the run, not after it.
        with needs_study():
            import rich.console  # noqa: F401 # pyright: ignore[reportUnusedImport]

    expected, off_reason = _expectations()
    with ExitStack() as stack:
        manifest: Manifest | None = None
        if record is None:
            folder = stack.enter_context(_temporary_folder())
        else:
            folder = str(Path(record).resolve())
            conditions = {"program": Path(program[0]).name}
            manifest = begin_recording(folder, source="run", conditions=conditions)
        environment = environment_for(dict(os.environ), becomes=False, records_folder=folder)
        try:
            status = supervise(path, program, environment)
        except OSError as error:
            if manifest is not None:
                manifest.discard()
            return explain_error(path, error)
        # The exit code is the program's, whatever it did to the recording.
        try:
            if record is not None:
                _print_recording(record, off_reason)
            if report:
                _print_report(folder, expected, off_reason)
        except LatspanError as error:
            print_message(f"error: {error.message}")
    return end_as(status)


def _print_recording(record: str, off_reason: str | None) -> None:
    """Print where the recording is, and what to do with it."""
    from latspan._model.recording.folder import open_recording

    print_message(f"recorded in {record}")
    if off_reason is not None:
        print_message(f"nothing was recorded: {off_reason}")
    for note in open_recording(record).notes:
        print_message(note)
    print_message(f"hint: latspan report {record}")


def _expectations() -> tuple[Expectations, str | None]:
    """Return the expectations of streams, and why the environment leaves latspan off, if so."""
    from latspan._live.sdk import expectations, read_config
    from latspan._live.sdk._lifecycle import is_sdk_disabled
    from latspan._model.recording import SDK_DISABLED

    try:
        expected = expectations(read_config({}))
    except LatspanError as error:
        # The program runs all the same, and logs the error when it first uses latspan.
        return DEFAULT_EXPECTATIONS, f"latspan stayed off, because {error}"
    return expected, SDK_DISABLED if is_sdk_disabled() else None


@contextmanager
def _temporary_folder() -> Generator[str]:
    """Create a folder for the records of the program, and delete it at the end of the block."""
    from latspan._model.recording.folder import prepare

    with ExitStack() as deleted:
        try:
            # A process that still runs may write into it.
            folder = deleted.enter_context(
                TemporaryDirectory(prefix="latspan-run-", ignore_cleanup_errors=True)
            )
            prepare(Path(folder), is_new=True)
        except OSError as error:
            raise ConfigError(
                f"no temporary folder can be created for the report: {error.strerror}",
                hint="set TMPDIR to a folder that can be written and has free space",
            ) from error
        yield folder


def _print_report(folder: str, expected: Expectations, off_reason: str | None) -> None:
    from rich.console import Console

    from latspan._model.recording.folder import Recording
    from latspan.reports._process import report_of_recording

    recording = Recording(Path(folder), {})
    report = report_of_recording(recording, expected, empty_reason=off_reason)
    # The program's output may be redirected, and belongs to the program. Without a terminal, or
    # without stderr, the report must not fail the run.
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(file=sys.stderr)
            Console(file=sys.stderr, highlight=False).print(report, crop=False)
            sys.stderr.flush()


def explain_error(path: str, error: OSError) -> int:
    """Print why a program cannot be run, and return the exit code."""
    print_message(f"error: '{path}' cannot be run: {error.strerror}")
    return _NOT_EXECUTABLE


def explain_missing(name: str, *, command: str) -> int:
    """
    Print why no program is called ``name``, and return the exit code.

    Args:
        name: The program.
        command: The command of latspan that was to run it: ``run`` or ``doctor``.
    """
    if os.path.dirname(name) and os.path.exists(name):  # noqa: PTH110, PTH120
        print_message(f"error: '{name}' is not executable")
        if name.endswith(".py"):
            print_message(f"hint: latspan {command} -- python {name}")
        return _NOT_EXECUTABLE
    print_message(f"error: program not found: '{name}'")
    if name.startswith("-"):
        print_message(f"hint: options of latspan come before --: latspan {command} {name} -- ...")
    elif os.path.exists(name):  # noqa: PTH110
        print_message(f"hint: latspan {command} -- python {name}")
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
            "latspan run --report -- python app.py",
            "the same, and print where its requests spent their time",
        ),
        (
            "latspan run --record monday -- python app.py",
            "record every request in the folder monday, for latspan report",
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
