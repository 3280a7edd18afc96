"""
Observer inside a program that ``latspan doctor -- PROGRAM`` runs.

It writes its observations at four times: when the program starts, when latspan is configured, when
a configuration ends, and in an exit handler. It changes nothing that the program can notice; a
folder that cannot be written to is ignored. A forked child begins an observation of its own when
one of these events happens in it, so a child that only runs another program costs nothing.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from latspan._base.fork import this_process
from latspan._base.internal_errors import handle_internal_errors
from latspan._base.log import (
    EXPORT_FAILED,
    EXPORT_REFUSED,
    HISTOGRAMS_NOT_EXPORTED,
    NOT_EXPORTED,
    has_handlers,
    logger,
    warnings_given,
)
from latspan._live.instrument import Integration, IntegrationStatus, integrations
from latspan._live.instrument._discovery import (
    instrumentor_of,
    instrumentors,
    patched_libraries,
)
from latspan._live.instrument._instrumentor import triggers_of
from latspan._live.process.runtime import when_instrumentation_is_requested
from latspan._live.sdk._lifecycle import is_sdk_disabled
from latspan._live.sdk._observation import (
    Configured,
    ExportedSignal,
    Library,
    ProcessObservation,
    write_observation,
)
from latspan._model.metrics import DURATION
from latspan._model.segments import Kind

if TYPE_CHECKING:
    from latspan._live.sdk._assembly import Assembly

_OURS: Final = "latspan"

_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"
_OF_EXPORTER: Final[Mapping[str, frozenset[str]]] = {
    "requests": frozenset(),
    "urllib3": frozenset({"requests"}),
}
"""Libraries that the OTLP exporter over HTTP imports, with those that use them too."""


_IN_THE_REPORT: Final = frozenset(
    {EXPORT_FAILED, EXPORT_REFUSED, HISTOGRAMS_NOT_EXPORTED, NOT_EXPORTED}
)
"""Log lines whose content is in the doctor's report."""


class Observer:
    """
    Observes the configurations of this process and what they record.

    Args:
        folder: Folder of the doctor.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._starts_program = False
        self._begin()

    def _begin(self) -> None:
        self._process = this_process()
        # Files are read in the order of their names.
        self._name = f"{time.time_ns():020}-{os.getpid()}"
        self._configured: Configured | None = None
        self._failure: str | None = None
        self._instruments_itself = False
        self._service_name: str | None = None
        self._endpoint: str | None = None
        self._uses_application = False
        self._finished = False
        self._recorded: Counter[str] = Counter()
        self._recorded_by_run: Counter[str] = Counter()

    def _begin_in_child(self) -> None:
        if self._process is not this_process():
            inherited = self._configured, self._instruments_itself
            self._begin()
            self._configured, self._instruments_itself = inherited

    def start(self) -> None:
        """Begin to observe the program; call this after latspan's own instrumentation."""
        when_instrumentation_is_requested(self.instrumentation_requested)
        logger.addFilter(_is_logged)
        # Registered after latspan's own exit handler, so it runs before that handler.
        atexit.register(self.exit)
        self._write()

    def starts_for_program(self, *, now: bool) -> None:
        """Set whether zero-code instrumentation, and not the program, is calling ``configure``."""
        self._starts_program = now

    def stays_off(self, error: Exception) -> None:
        """Record why latspan stays off."""
        self._begin_in_child()
        self._failure = str(error)
        self._write()

    def instrumentation_requested(self) -> None:
        """Record that the program has called ``auto_instrument``."""
        self._begin_in_child()
        self._instruments_itself = True

    def configured(self, live: Assembly) -> None:
        """Record that ``live`` is in effect now."""
        del live
        self._begin_in_child()
        self._configured = "latspan run" if self._starts_program else "program"
        self._failure = None
        self._write()

    def ended(self, live: Assembly) -> None:
        """Record what ``live`` has recorded, after its last export."""
        self._begin_in_child()
        snapshot = live.runtime.recorder.snapshot()
        counts = {
            str(kind): count
            for kind in Kind
            if (count := snapshot.metric(DURATION, kind=kind).count())
        }
        self._recorded.update(counts)
        if self._configured == "latspan run":
            self._recorded_by_run.update(counts)
        self._service_name = live.start_line.service_name()
        self._endpoint = live.start_line.endpoint
        self._uses_application = live.start_line.uses_application()
        self._finished = True
        self._write()

    def exit(self) -> None:
        """Record that the process ends in order."""
        with handle_internal_errors("the doctor's observation"):
            self._begin_in_child()
            self._finished = True
            self._write()

    def _write(self) -> None:
        observation = ProcessObservation(
            pid=os.getpid(),
            program=_program(),
            finished=self._finished,
            configured=self._configured,
            failure="OTEL_SDK_DISABLED is true" if is_sdk_disabled() else self._failure,
            imports_latspan=self._finished and _program_imports_latspan(),
            instruments_itself=self._instruments_itself,
            service_name=self._service_name,
            endpoint=self._endpoint,
            uses_application=self._uses_application,
            recorded=dict(self._recorded),
            early=dict(self._recorded_by_run) if self._configured == "program" else {},
            libraries=tuple(_libraries()) if self._finished else (),
            exports=tuple(_exports()),
            warnings=warnings_given(),
        )
        with suppress(OSError):
            write_observation(observation, self._folder, self._name)


def _is_logged(record: logging.LogRecord) -> bool:
    """
    Return whether a line of latspan's is logged.

    Without a handler, Python would print the lines about failed exports before the report, which
    contains them. A program that handles log records gets all of them.
    """
    return record.msg not in _IN_THE_REPORT or has_handlers()


def _program() -> str:
    """Return the file name of the program, without its folder and arguments."""
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    # At the start of the interpreter, there is no `__main__` module of the program yet.
    first = sys.argv[0] if getattr(sys, "argv", None) else ""
    return Path(first).name or Path(sys.executable).name


def _libraries() -> Iterator[Library]:
    """Yield the imported libraries that latspan supports, and copies of them."""
    patched = patched_libraries()
    for each in integrations():
        # An integration has the name of the import package of its library.
        package = each.name.removeprefix(f"{_OURS}_")
        if package in patched:
            by_exporter = package in _OF_EXPORTER and not _is_used_by_program(package)
            yield Library(package, each.found, by_exporter=by_exporter)
        elif any(sys.modules.get(trigger) is not None for trigger in _triggers_of(package)):
            yield _missed(package, each)
    yield from _copies()


def _is_used_by_program(package: str) -> bool:
    """Return whether a module other than those of latspan's exporter refers to a library."""
    if _EXPORTER not in sys.modules:
        return True
    used_through = {package, *_OF_EXPORTER[package]}
    return any(
        _package_of(value) in used_through
        for name, module in list(sys.modules.items())
        if type(module) is ModuleType
        and name.partition(".")[0] not in {"opentelemetry", *_OF_EXPORTER}
        # A module of latspan's own bootstrap is named like one of the program.
        and not name.startswith((_OURS, "sitecustomize"))
        for value in list(vars(module).values())
    )


def _package_of(value: object) -> str | None:
    if type(value) is ModuleType:
        name = value.__name__
    elif isinstance(value, FunctionType | type):
        name = value.__module__
    else:
        return None
    # An application may set the attribute to any object.
    return str(name).partition(".")[0]


def _triggers_of(package: str) -> tuple[str, ...]:
    """Return the modules of which the first import triggers the patches of a library."""
    integration = instrumentor_of(package)
    return (package,) if integration is None else triggers_of(integration)


def _missed(package: str, integration: Integration) -> Library:
    """Return an imported library that is not instrumented, with the reason."""
    found, reason, requires = integration.found, integration.reason, integration.requires
    hint = None
    match integration.status:
        case IntegrationStatus.UNSUPPORTED:
            problem = f"its version is not supported: latspan supports {requires}"
            hint = "install a supported version, or a newer latspan"
        case IntegrationStatus.DISABLED:
            return Library(package, found, f"disabled by {reason}", is_intended=True)
        case IntegrationStatus.BROKEN:
            problem = f"its integration cannot be loaded: {reason}"
        case IntegrationStatus.ABSENT:
            problem = f"its version is not known, because no distribution {requires} is installed"
            hint = "install it with pip, and not as a folder on the module path"
        case IntegrationStatus.READY:
            problem = "its integration failed, or the program has switched it off"
            hint = "read the warnings that latspan logged in the program"
    return Library(package, found, problem, hint)


def _copies() -> Iterator[Library]:
    """Yield copies of libraries inside other packages, which no integration patches."""
    names = list(sys.modules)
    for library, integration in instrumentors():
        module = integration.core_module
        if not module:
            continue
        end = f".{library}.{module}"
        original = sys.modules.get(f"{library}.{module}")
        for name in names:
            # `requests.packages.urllib3` is urllib3 itself.
            if name.endswith(end) and sys.modules.get(name) not in (None, original):
                copy = name.removesuffix(f".{module}")
                yield Library(
                    copy,
                    problem=f"a copy of {library} under another name, which latspan does not patch",
                    hint=f"use the package {library} itself, if the other package allows it",
                )


def _exports() -> Iterator[ExportedSignal]:
    if "latspan._live.otel.export" not in sys.modules:
        return
    from latspan._live.otel.export._export_errors import export_results

    for signal, result in sorted(export_results.items()):
        yield ExportedSignal(signal, result.accepted, result.failed, result.reason)


def _program_imports_latspan() -> bool:
    """Return whether a module outside latspan refers to the package or to a public name of it."""
    package = sys.modules[_OURS]
    names = frozenset(package.__all__)
    for name, module in list(sys.modules.items()):
        # An application may put any object into the table of modules.
        if name.startswith((_OURS, "sitecustomize")) or type(module) is not ModuleType:
            continue
        for value in list(vars(module).values()):
            if value is package:
                return True
            if (
                isinstance(value, FunctionType | type)
                and value.__name__ in names
                and value.__module__.partition(".")[0] == _OURS
            ):
                return True
    return False
