"""
Observations of the processes of a program that ``latspan doctor -- PROGRAM`` runs, and their merge.

Each process writes one file into a private folder, whose path is in an environment variable. An
observation holds counts, names of libraries, addresses and latspan's own messages. It holds no
argument of the program and nothing of a request or a response.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from latspan._base.shown import printable

Configured = Literal["program", "latspan run"]

_CONFIGURE_FIRST: Final = "call latspan.configure() before the program's first call"
_RUN_OR_CONFIGURE: Final = "always start it with latspan run, or call latspan.configure() in it"


@dataclass(frozen=True, slots=True)
class Library:
    """
    An imported library that latspan supports, or a copy of one.

    Args:
        package: Import package; the full module name of a copy inside another package.
        version: Distribution and version, for example ``openai 3.1.0``, if it is known.
        problem: Why its calls are not recorded; ``None`` if it is instrumented.
        hint: How to fix that.
        is_intended: Whether a setting switched it off.
        by_exporter: Whether latspan's own exporter imported it, and no module of the program uses
            it.
    """

    package: str
    version: str | None = None
    problem: str | None = None
    hint: str | None = None
    is_intended: bool = False
    by_exporter: bool = False


@dataclass(frozen=True, slots=True)
class ExportedSignal:
    """
    Messages of one signal.

    Args:
        signal: Name of the signal.
        accepted: Number of messages that the receiver accepted.
        failed: Number of attempts that it did not accept.
        reason: Reason of the first failure.
    """

    signal: str
    accepted: int = 0
    failed: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessObservation:
    """
    What one process was seen to do.

    Args:
        pid: Process id.
        program: File name of the program, without its folder and arguments.
        finished: Whether latspan's exit handlers ran.
        configured: What called ``configure()`` last, if anything did.
        failure: Why latspan stayed off, if it did.
        imports_latspan: Whether a module of the program imports latspan.
        instruments_itself: Whether the program calls ``latspan.auto_instrument()``.
        service_name: Service name of its telemetry.
        endpoint: Description of where telemetry was sent, without credentials.
        uses_application: Whether spans went to the application's tracer provider.
        recorded: Number of finished timelines by kind, for example ``call``.
        early: The part of ``recorded`` from before the program's own ``configure()``.
        libraries: Imported libraries that latspan supports.
        exports: Results of latspan's own exports.
        warnings: latspan's warnings.
    """

    pid: int
    program: str
    finished: bool = False
    configured: Configured | None = None
    failure: str | None = None
    imports_latspan: bool = False
    instruments_itself: bool = False
    service_name: str | None = None
    endpoint: str | None = None
    uses_application: bool = False
    recorded: Mapping[str, int] = field(default_factory=dict[str, int])
    early: Mapping[str, int] = field(default_factory=dict[str, int])
    libraries: tuple[Library, ...] = ()
    exports: tuple[ExportedSignal, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingTelemetry:
    """
    Something that is missing from the telemetry of the program, or would be without the doctor.

    Args:
        subject: The process, library or setting.
        problem: Description of the problem.
        hint: How to fix it.
        is_error: Whether something is lost; otherwise it may be intended.
    """

    subject: str
    problem: str
    hint: str | None = None
    is_error: bool = True


def write_observation(observation: ProcessObservation, folder: Path, name: str) -> None:
    """
    Write an observation; a reader sees the previous version or this one, never a part of one.

    Raises:
        OSError: The folder does not accept the file.
    """
    partial = folder / f"{name}.partial"
    partial.write_text(json.dumps(asdict(observation)), encoding="utf-8")
    partial.replace(folder / f"{name}.json")


def read_observations(folder: Path) -> list[ProcessObservation]:
    """Return the observations in a folder, in the order in which their processes began."""
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> ProcessObservation:
    held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    held["libraries"] = tuple(Library(**each) for each in held["libraries"])
    held["exports"] = tuple(ExportedSignal(**each) for each in held["exports"])
    held["warnings"] = tuple(held["warnings"])
    return ProcessObservation(**held)


def recorded_in(observations: Iterable[ProcessObservation]) -> dict[str, int]:
    """Return the number of finished timelines of all processes, by kind."""
    total: Counter[str] = Counter()
    for each in observations:
        total.update(each.recorded)
    return dict(total)


def libraries_of(observations: Iterable[ProcessObservation]) -> list[Library]:
    """Return the imported libraries of all processes, each state of a library once."""
    found = {library for each in observations for library in each.libraries}
    # Another process may have imported it for itself.
    used = {library.package for library in found if not library.by_exporter}
    return sorted(
        (library for library in found if not (library.by_exporter and library.package in used)),
        key=lambda library: (library.package, library.problem or ""),
    )


def labels_of(observations: Sequence[ProcessObservation]) -> list[str]:
    """
    Return a different name for each observation: the program with its process id.

    A process that replaces itself by exec keeps its id, and has one observation per program.
    """
    programs = Counter(each.pid for each in observations)
    seen: Counter[int] = Counter()
    labels: list[str] = []
    for each in observations:
        seen[each.pid] += 1
        several = programs[each.pid] > 1
        order = f", program {seen[each.pid]} of {programs[each.pid]}" if several else ""
        labels.append(f"{printable(each.program)} ({each.pid}{order})")
    return labels


def exports_of(observations: Iterable[ProcessObservation]) -> list[ExportedSignal]:
    """Return the results of the exports of all processes, by signal."""
    merged: dict[str, ExportedSignal] = {}
    for observation in observations:
        for each in observation.exports:
            before = merged.get(each.signal, ExportedSignal(each.signal))
            merged[each.signal] = ExportedSignal(
                each.signal,
                before.accepted + each.accepted,
                before.failed + each.failed,
                before.reason or each.reason,
            )
    return [merged[signal] for signal in sorted(merged)]


def findings_of(observations: list[ProcessObservation]) -> list[MissingTelemetry]:
    """Return what is wrong with the telemetry of the processes."""
    if not observations:
        return [
            MissingTelemetry(
                "program",
                "no process of the program loaded latspan",
                "run it with a Python in which latspan is installed, and without -I, -E and -S;"
                " a program in another language cannot be instrumented",
            )
        ]
    last = {each.pid: number for number, each in enumerate(observations)}
    found: list[MissingTelemetry] = []
    for number, (each, label) in enumerate(zip(observations, labels_of(observations), strict=True)):
        found += _findings_of_process(each, label, is_replaced=last[each.pid] != number)
    if not sum(recorded_in(observations).values()) and not any(
        each.failure for each in observations
    ):
        found.append(
            MissingTelemetry(
                "program",
                "no call and no request was recorded",
                "check that the program made a call during this run, with a library that latspan"
                " instruments",
                is_error=False,
            )
        )
    return found


def _findings_of_process(
    process: ProcessObservation, subject: str, *, is_replaced: bool
) -> Iterator[MissingTelemetry]:
    if process.failure is not None:
        problem, _, hint = process.failure.partition("\nhint: ")
        yield MissingTelemetry(
            subject, f"latspan stayed off: {printable(problem)}", printable(hint) or None
        )
    # A process that latspan was never configured in has nothing to lose: many helpers of an
    # application are killed.
    if not process.finished and process.configured is not None:
        ended, end = (
            ("it was replaced by exec", "the process calls os.exec")
            if is_replaced
            else ("it ended", "the process is killed or calls os._exit()")
        )
        yield MissingTelemetry(
            subject,
            f"{ended} without its exit handlers, so what it recorded is unknown",
            f"call latspan.shutdown() before {end}",
        )
    early = process.early.get("call", 0) + process.early.get("http", 0)
    if early:
        yield MissingTelemetry(
            subject,
            f"{early} {'call was' if early == 1 else 'calls were'} made before"
            " latspan.configure(); without latspan run, they are not recorded",
            _CONFIGURE_FIRST,
        )
    if process.imports_latspan and process.configured != "program" and process.failure is None:
        yield MissingTelemetry(
            subject,
            "the program imports latspan and never calls latspan.configure(): it records only under"
            " latspan run",
            _RUN_OR_CONFIGURE,
            is_error=False,
        )
    if process.configured == "program" and not process.instruments_itself:
        yield MissingTelemetry(
            subject,
            "the program never calls latspan.auto_instrument(); without latspan run, a library is"
            " instrumented only if the program switches its integration on itself",
            "call latspan.auto_instrument() after latspan.configure()",
            is_error=False,
        )
    for warning in process.warnings:
        text, _, hint = warning.partition("; hint: ")
        yield MissingTelemetry(subject, printable(text), printable(hint) or None, is_error=False)
