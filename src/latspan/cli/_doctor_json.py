"""
Reports of ``latspan doctor`` as JSON: ``latspan.doctor/1`` and ``latspan.doctor-program/1``.

The module is imported when a report is printed, because it needs the live half.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypedDict

from latspan._live.sdk._endpoints import Protocol, Signal
from latspan._live.sdk._observation import Configured
from latspan._study.fields import Count

if TYPE_CHECKING:
    from latspan._live.sdk._doctor import Examination
    from latspan._live.sdk._observation import ExportedSignal, Library, ProcessObservation
    from latspan._live.sdk._variables import VariableFinding
    from latspan.cli._doctor_program import ProgramReport

DOCTOR_SCHEMA: Final = "latspan.doctor/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

PROGRAM_SCHEMA: Final = "latspan.doctor-program/1"
"""Kind and version of the document about a program."""


class ExaminedIntegration(TypedDict):
    """One of latspan's integrations."""

    name: str
    status: Literal["ready", "absent", "unsupported", "disabled", "broken"]
    requires: Annotated[str, "Supported versions; empty for a broken integration"]
    found: Annotated[str | None, "The installed distribution and its version"]
    reason: Annotated[str | None, "Why it is disabled or broken"]


class ConflictingInstrumentation(TypedDict):
    """Another instrumentation of a library that latspan instruments too."""

    packages: list[str]
    name: Annotated[str, "Its name in OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"]
    meaning: str


class ExaminedSetting(TypedDict):
    """A setting in effect."""

    name: str
    value: Annotated[str, "Secrets are hidden"]
    origin: Annotated[str, "The variable that set it, or default"]


class VariableProblem(TypedDict):
    """Something wrong with an environment variable."""

    variable: str
    problem: str
    hint: str | None
    is_error: Annotated[bool, "Whether it is certainly a mistake"]


class ProbedExport(TypedDict):
    """Result of sending one span or one metric."""

    signal: Signal
    endpoint: str
    protocol: Protocol
    arrived: Annotated[bool | None, "null if a setting disables the export"]
    response: str
    hint: str | None


class DoctorDocument(TypedDict):
    """What is installed and active, and whether telemetry arrives: latspan doctor --json."""

    schema: Literal["latspan.doctor/1"]
    ok: Annotated[bool, "Whether no problem was found"]
    versions: Annotated[dict[str, str | None], "By package; null if it is not installed"]
    integrations: list[ExaminedIntegration]
    conflicts: list[ConflictingInstrumentation]
    settings: list[ExaminedSetting]
    variables: list[VariableProblem]
    exports: Annotated[list[ProbedExport], "Empty if the endpoint is not valid"]


class ImportedLibrary(TypedDict):
    """An imported library that latspan supports."""

    package: str
    version: str | None
    problem: Annotated[str | None, "Why it is not instrumented; null if it is"]
    hint: str | None
    is_intended: Annotated[bool, "Whether a setting disables its instrumentation"]
    by_exporter: Annotated[
        bool,
        "Whether latspan's own exporter imported it, and no module of the program uses it",
    ]


class ExportResult(TypedDict):
    """Messages of one signal."""

    signal: str
    accepted: Count
    failed: Count
    reason: Annotated[str | None, "Reason of the first failure"]


class ObservedProcess(TypedDict):
    """What one process was seen to do."""

    pid: int
    program: str
    finished: Annotated[bool, "Whether latspan's exit handlers ran"]
    configured: Annotated[Configured | None, "What called configure() last"]
    failure: Annotated[str | None, "Why latspan stayed off"]
    imports_latspan: bool
    instruments_itself: Annotated[bool, "Whether it calls latspan.auto_instrument()"]
    service_name: str | None
    endpoint: str | None
    uses_application: Annotated[bool, "Whether spans went to the application's tracer provider"]
    recorded: Annotated[dict[str, Count], "Number of finished timelines by kind"]
    early: Annotated[
        dict[str, Count], "The part of recorded from before the program called configure()"
    ]
    libraries: list[ImportedLibrary]
    exports: list[ExportResult]
    warnings: Annotated[list[str], "latspan's warnings"]


class TelemetryFinding(TypedDict):
    """Something that is missing from the telemetry of the program."""

    subject: Annotated[str, "The process, library or setting"]
    problem: str
    hint: str | None
    is_error: Annotated[bool, "Whether something is lost"]


class DoctorProgramDocument(TypedDict):
    """What was recorded of a program, and what is missing: latspan doctor --json -- PROGRAM."""

    schema: Literal["latspan.doctor-program/1"]
    ok: Annotated[bool, "Whether no problem was found"]
    program: str
    exit_code: Annotated[int, "Negative number of the signal if one ended the program"]
    processes: list[ObservedProcess]
    recorded: Annotated[dict[str, Count], "Number of finished timelines by kind"]
    libraries: list[ImportedLibrary]
    exports: list[ExportResult]
    findings: list[TelemetryFinding]
    variables: list[VariableProblem]


def doctor_document(examination: Examination) -> DoctorDocument:
    """Return the report about an environment as plain data, ready for ``json.dumps``."""
    return {
        "schema": DOCTOR_SCHEMA,
        "ok": examination.ok,
        "versions": examination.versions,
        "integrations": [
            {
                "name": each.name,
                "status": each.status.value,
                "requires": each.requires,
                "found": each.found,
                "reason": each.reason,
            }
            for each in examination.integrations
        ],
        "conflicts": [
            {"packages": list(each.packages), "name": each.name, "meaning": each.meaning}
            for each in examination.conflicts
        ],
        "settings": [
            {"name": each.name, "value": each.value, "origin": each.origin}
            for each in examination.settings
        ],
        "variables": _variables(examination.variables),
        "exports": [
            {
                "signal": each.signal,
                "endpoint": each.endpoint,
                "protocol": each.protocol,
                "arrived": each.arrived,
                "response": each.response,
                "hint": each.hint,
            }
            for each in examination.exports
        ],
    }


def program_document(report: ProgramReport) -> DoctorProgramDocument:
    """Return the report about a program as plain data, ready for ``json.dumps``."""
    return {
        "schema": PROGRAM_SCHEMA,
        "ok": report.ok,
        "program": report.program,
        "exit_code": report.exit_code,
        "processes": [_process(each) for each in report.processes],
        "recorded": report.recorded,
        "libraries": _libraries(report.libraries),
        "exports": _exports(report.exports),
        "findings": [
            {
                "subject": each.subject,
                "problem": each.problem,
                "hint": each.hint,
                "is_error": each.is_error,
            }
            for each in report.findings
        ],
        "variables": _variables(report.variables),
    }


def _variables(findings: Iterable[VariableFinding]) -> list[VariableProblem]:
    return [
        {
            "variable": each.variable,
            "problem": each.problem,
            "hint": each.hint,
            "is_error": each.is_error,
        }
        for each in findings
    ]


def _process(process: ProcessObservation) -> ObservedProcess:
    return {
        "pid": process.pid,
        "program": process.program,
        "finished": process.finished,
        "configured": process.configured,
        "failure": process.failure,
        "imports_latspan": process.imports_latspan,
        "instruments_itself": process.instruments_itself,
        "service_name": process.service_name,
        "endpoint": process.endpoint,
        "uses_application": process.uses_application,
        "recorded": dict(process.recorded),
        "early": dict(process.early),
        "libraries": _libraries(process.libraries),
        "exports": _exports(process.exports),
        "warnings": list(process.warnings),
    }


def _libraries(libraries: Iterable[Library]) -> list[ImportedLibrary]:
    return [
        {
            "package": each.package,
            "version": each.version,
            "problem": each.problem,
            "hint": each.hint,
            "is_intended": each.is_intended,
            "by_exporter": each.by_exporter,
        }
        for each in libraries
    ]


def _exports(exports: Iterable[ExportedSignal]) -> list[ExportResult]:
    return [
        {
            "signal": each.signal,
            "accepted": each.accepted,
            "failed": each.failed,
            "reason": each.reason,
        }
        for each in exports
    ]
