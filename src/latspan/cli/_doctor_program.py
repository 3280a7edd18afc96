"""``latspan doctor -- PROGRAM``: runs a program, and reports what was recorded and missed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from latspan._base.shown import printable
from latspan._model.segments import KIND_NOUNS
from latspan.cli._rows import Row, section, variable_rows, verdict
from latspan.cli._supervisor import supervise

if TYPE_CHECKING:
    from latspan._live.sdk._observation import (
        ExportedSignal,
        Library,
        MissingTelemetry,
        ProcessObservation,
    )
    from latspan._live.sdk._variables import VariableFinding


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """
    Observations of a program.

    Args:
        program: File name of the program.
        exit_code: Its exit code; negative if a signal ended it.
        processes: Observations of its processes.
        recorded: Number of finished timelines by kind.
        libraries: Imported libraries that latspan supports.
        exports: Results of latspan's own exports.
        findings: What is missing from the telemetry.
        variables: What is wrong with environment variables.
    """

    program: str
    exit_code: int
    processes: tuple[ProcessObservation, ...]
    recorded: dict[str, int]
    libraries: tuple[Library, ...]
    exports: tuple[ExportedSignal, ...]
    findings: tuple[MissingTelemetry, ...]
    variables: tuple[VariableFinding, ...]

    @property
    def ok(self) -> bool:
        """Whether every imported library was instrumented and all telemetry arrived."""
        return not (
            any(each.is_error for each in (*self.findings, *self.variables))
            or any(each.problem and not each.is_intended for each in self.libraries)
            or any(each.failed for each in self.exports)
        )


def observe_program(path: str, program: list[str]) -> tuple[int, ProgramReport]:
    """
    Run a program under ``latspan run``'s instrumentation.

    Args:
        path: File to execute.
        program: Its arguments, the name of the program first.

    Returns:
        The status that ``os.waitpid`` returned, and what was seen.

    Raises:
        OSError: The program cannot be executed.
    """
    from latspan._live.sdk._observation import read_observations
    from latspan._live.sdk._zero_code import OBSERVATION_FOLDER, environment_for

    # What latspan has printed comes before the output of the program.
    sys.stdout.flush()
    # Only the user can read the folder. A process that still runs may write into it.
    with TemporaryDirectory(prefix="latspan-doctor-", ignore_cleanup_errors=True) as folder:
        variables = {**os.environ, OBSERVATION_FOLDER: folder}
        status = supervise(path, program, environment_for(variables, becomes=False))
        observations = read_observations(Path(folder))
    return status, _report(program[0], os.waitstatus_to_exitcode(status), observations)


def _report(program: str, exit_code: int, observations: list[ProcessObservation]) -> ProgramReport:
    from latspan._live.instrument import integrations
    from latspan._live.sdk._observation import exports_of, findings_of, libraries_of, recorded_in
    from latspan._live.sdk._variables import examine_variables, readable_config

    config, unreadable, _ = readable_config(os.environ)
    return ProgramReport(
        program=Path(program).name,
        exit_code=exit_code,
        processes=tuple(observations),
        recorded=recorded_in(observations),
        libraries=tuple(libraries_of(observations)),
        exports=tuple(exports_of(observations)),
        findings=tuple(findings_of(observations)),
        variables=(*unreadable, *examine_variables(os.environ, config, integrations())),
    )


def lines_of(report: ProgramReport) -> Iterator[str]:
    """Yield the lines for a reader: a mark, a name, and details."""
    yield ""
    yield f"latspan doctor: {printable(report.program)} {_ended(report.exit_code)}"
    yield ""
    yield from section("processes", list(_process_rows(report.processes)))
    yield from section("libraries", list(_library_rows(report.libraries)))
    recorded: list[Row] = [
        ("ok", several, str(count))
        for kind, (_, several) in KIND_NOUNS.items()
        if (count := report.recorded.get(kind, 0))
    ]
    yield from section("recorded", recorded or [("note", "nothing", "")])
    yield from section("exports", list(_export_rows(report)))
    yield from section("variables", list(variable_rows(report.variables)))
    found: list[Row] = []
    for each in report.findings:
        found.append(("fail" if each.is_error else "note", each.subject, each.problem))
        if each.hint is not None:
            found.append(("", "", f"hint: {each.hint}"))
    yield from section("other findings", found or [("ok", "none", "")])
    yield verdict(ok=report.ok)


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _process_rows(processes: tuple[ProcessObservation, ...]) -> Iterator[Row]:
    from latspan._live.sdk._observation import labels_of

    labelled = list(zip(processes, labels_of(processes), strict=True))
    # The first process is the program itself.
    shown = [each for each in labelled if _is_used(each[0])] or labelled[:1]
    for process, label in shown:
        yield _of_process(process, label)
    if len(processes) > len(shown):
        more = f"{len(processes) - len(shown)} more"
        yield "", more, "imported no supported library and recorded nothing"


def _is_used(process: ProcessObservation) -> bool:
    return process.configured is not None or process.failure is not None


def _of_process(process: ProcessObservation, label: str) -> Row:
    configured = {
        None: "never configured",
        "program": "configured by the program",
        "latspan run": "configured by latspan run",
    }[process.configured]
    counts = [
        f"{count} {one if count == 1 else several}"
        for kind, (one, several) in KIND_NOUNS.items()
        if (count := process.recorded.get(kind, 0))
    ]
    parts = [configured, ", ".join(counts) or "recorded nothing"]
    if process.service_name is not None:
        parts.append(f"service name {process.service_name}")
    mark = "ok" if process.configured is not None else "note"
    return mark, label, "; ".join(parts)


def _library_rows(libraries: tuple[Library, ...]) -> Iterator[Row]:
    for each in libraries:
        version = each.version or "imported"
        if each.by_exporter:
            yield "note", each.package, f"{version}, imported by latspan's own exporter"
            continue
        if each.problem is None:
            yield "ok", each.package, f"{version}, instrumented"
            continue
        yield (
            "note" if each.is_intended else "fail",
            each.package,
            f"{version}, not instrumented: {each.problem}",
        )
        if each.hint is not None:
            yield "", "", f"hint: {each.hint}"
    if not libraries:
        yield "note", "none", "no process imported a supported library"


def _export_rows(report: ProgramReport) -> Iterator[Row]:
    from latspan._live.sdk._connectivity_probe import explained
    from latspan._live.sdk._zero_code import requests_export

    has_endpoint = requests_export(os.environ)
    for endpoint in sorted({each.endpoint for each in report.processes if each.endpoint}):
        yield "", "endpoint", endpoint
    for each in report.exports:
        accepted = f"{each.accepted} accepted by the receiver"
        if each.failed:
            reason, hint = explained(each.reason or "no reason is known", has_endpoint=has_endpoint)
            yield "fail", each.signal, f"{accepted}, {each.failed} failed: {reason}"
            hint = hint or "run `latspan doctor` with the same settings to test the endpoint"
            yield "", "", f"hint: {hint}"
        else:
            yield "ok", each.signal, f"{accepted}"
    if any(each.uses_application for each in report.processes):
        yield "note", "spans", "exported by the application's own tracer provider: not observed"
    if not report.exports:
        yield "note", "none", "latspan sent nothing"
