"""``latspan doctor``: reports versions, integrations, conflicts and whether telemetry arrives."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan._base.shown import foreign
from latspan.cli._argument_types import positive_number
from latspan.cli._command import Command
from latspan.cli._console import output, print_lines, print_message
from latspan.cli._doctor_program import ProgramReport, lines_of, observe_program
from latspan.cli._rows import section, variable_rows, verdict
from latspan.cli._run import explain_error, explain_missing, program_after_dashes
from latspan.cli._supervisor import end_as
from latspan.errors import ConfigError, LatspanError

if TYPE_CHECKING:
    from latspan._live.instrument import Integration
    from latspan._live.sdk._doctor import Examination

_TROUBLE: Final = 1

_DESCRIPTION: Final = """\
Diagnoses latspan in this environment, and reports:

  versions        of latspan, Python and OpenTelemetry
  integrations    which libraries are installed, and which can be instrumented
  conflicts       other instrumentations of the same libraries
  settings        the values in effect, and the source of each
  variables       that are misspelt or invalid, or need a package
  telemetry       whether a span and a metric arrive, and if not, why

It sends one span and one metric, both named latspan.doctor. The exit code is 1
if either does not arrive, if an installed library cannot be instrumented, or if
a variable is misspelt or invalid. Secrets are not shown. Settings that an
application passes to latspan.configure() override those shown here.

With a program, doctor runs it as `latspan run` does, and reports on standard
error what was recorded, which libraries were not instrumented and why, and
whether its telemetry arrived. The output and the exit code are the program's
own."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [OPTIONS] [-- PROGRAM [ARGUMENT ...]]"
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="-- PROGRAM [ARGUMENT ...]",
        help="run this program, and report what was recorded",
    )
    parser.add_argument(
        "--timeout",
        type=positive_number,
        default=5.0,
        metavar="SECONDS",
        help="seconds to wait for each response (default: %(default)g)",
    )
    parser.add_argument(
        "--all", action="store_true", help="also show the settings that have their default value"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document instead of the text: latspan.doctor/1, or with a program"
        " latspan.doctor-program/1",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="with a program: write the report into this file instead of standard error",
    )
    parser.set_defaults(complain=parser.error)


def _run(arguments: argparse.Namespace) -> int:
    program = program_after_dashes(arguments.program)
    if program:
        return _run_program(program, as_json=arguments.json, file=arguments.output)
    if arguments.output is not None:
        arguments.complain("--output needs a program: the report is written to standard output")
    examination = _examined(arguments.timeout)
    with output() as out:
        if arguments.json:
            from latspan.cli._doctor_json import doctor_document

            print(json.dumps(doctor_document(examination), indent=2), file=out)
        else:
            print("\n".join(_lines(examination, every_setting=arguments.all)), file=out)
    return 0 if examination.ok else _TROUBLE


def _run_program(program: list[str], *, as_json: bool, file: str | None) -> int:
    path = shutil.which(program[0])
    if path is None:
        return explain_missing(program[0], command="doctor")
    with _rejected_variables_explained():
        try:
            status, report = observe_program(path, program)
        except OSError as error:
            return explain_error(path, error)
    lines = [_program_text(report)] if as_json else list(lines_of(report))
    try:
        if file is not None:
            Path(file).write_text("\n".join([*lines, ""]), encoding="utf-8")
    except OSError as error:
        # The exit code is the program's, so the report must not be lost.
        print_message(f"error: '{file}' cannot be written: {error.strerror}")
        file = None
    if file is None:
        print_lines(lines)
    return end_as(status)


def _program_text(report: ProgramReport) -> str:
    from latspan.cli._doctor_json import program_document

    return json.dumps(program_document(report), indent=2)


def _examined(timeout_s: float) -> Examination:
    with _rejected_variables_explained():
        # latspan itself imports it on first use.
        import_module("opentelemetry.propagate")
        from latspan._live.sdk._doctor import examine

        return examine(timeout_s)


@contextmanager
def _rejected_variables_explained() -> Generator[None]:
    """Explain a variable whose value OpenTelemetry rejects, which it does during its import."""
    try:
        yield
    except LatspanError:
        raise
    except ValueError as error:
        raise ConfigError(
            f"OpenTelemetry rejects an environment variable: {foreign(str(error))}",
            hint="correct or remove the variable; until then no program can use OpenTelemetry",
        ) from error


def _lines(examination: Examination, *, every_setting: bool) -> Iterator[str]:
    """Yield the lines for a reader: a mark, a name, and details."""
    yield from section("versions", [("", *row) for row in _versions(examination)])
    yield from section("integrations", [_of(each) for each in examination.integrations])
    conflicts = [
        ("note", each.name, f"{', '.join(each.packages)}: {each.meaning}")
        for each in examination.conflicts
    ]
    yield from section("conflicts", conflicts or [("ok", "none", "")])
    settings = [
        ("", each.name, f"{each.value}  ({each.origin})")
        for each in examination.settings
        if every_setting or each.origin != "default"
    ]
    yield from section("settings", settings or [("", "defaults", "all of them: --all")])
    yield from section("variables", list(variable_rows(examination.variables)))
    telemetry: list[tuple[str, str, str]] = []
    for each in examination.exports:
        mark = {True: "ok", False: "fail", None: "note"}[each.arrived]
        telemetry.append(
            (mark, each.signal, f"{each.endpoint} over {each.protocol}: {each.response}")
        )
        if each.hint is not None:
            telemetry.append(("", "", f"hint: {each.hint}"))
    not_sent = ("note", "not sent", "the endpoint is not valid: see variables")
    yield from section("telemetry", telemetry or [not_sent])
    yield verdict(ok=examination.ok)


def _versions(examination: Examination) -> Iterator[tuple[str, str]]:
    for name, version in examination.versions.items():
        yield name, version or "not installed"


def _of(integration: Integration) -> tuple[str, str, str]:
    found, reason = integration.found, integration.reason
    mark, explanation = {
        "ready": ("ok", f"{found}"),
        "absent": ("", "not installed"),
        "disabled": ("note", f"{found}, disabled by {reason}"),
        "unsupported": ("fail", f"{found} is not supported: use {integration.requires}"),
        "broken": ("fail", f"cannot be loaded: {reason}"),
    }[integration.status.value]
    return mark, integration.name, explanation


COMMAND: Final = Command(
    name="doctor",
    summary="show what is installed and active, and whether telemetry arrives",
    description=_DESCRIPTION,
    examples=(
        ("latspan doctor", "find out why no telemetry arrives in the backend"),
        (
            "LATSPAN_ENDPOINT=http://collector:4318 latspan doctor",
            "the same for another receiver",
        ),
        (
            "latspan doctor -- python app.py",
            "find out what is recorded of a program, and what is missed",
        ),
        ("latspan doctor --json | jq .exports", "print whether telemetry arrives, for a script"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
