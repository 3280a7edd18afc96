"""Zero-code setup: instruments a program that does not use latspan's API."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan._base.internal_errors import handle_internal_errors
from latspan._base.log import logger
from latspan._live.instrument import auto_instrument, disabled_by, instrumented, uninstrument
from latspan._live.process.runtime import expect_start
from latspan._live.sdk._lifecycle import configure, export_at_sigterm, observe
from latspan._live.sdk._record_export import RECORDS_FOLDER
from latspan.errors import LatspanError

if TYPE_CHECKING:
    from latspan._live.sdk._observer import Observer

_RUN_PID: Final = "LATSPAN_RUN_PID"
"""Variable with the process that reports if its Python has no latspan; see ``_bootstrap``."""

OBSERVATION_FOLDER: Final = "LATSPAN_DOCTOR_DIR"
"""Variable with the folder into which each process of a program writes its observation."""

INTERNAL_VARIABLES: Final = frozenset({_RUN_PID, OBSERVATION_FOLDER, RECORDS_FOLDER})
"""Variables that latspan's own commands set for the programs that they start."""

_BOOTSTRAP: Final = str(Path(__file__).with_name("_bootstrap"))
"""Folder whose ``sitecustomize`` calls :func:`start`."""

_PYTHON_PATH: Final = "PYTHONPATH"

_ENDPOINTS: Final = (
    "LATSPAN_ENDPOINT",
    "LATSPAN_EXPORT_ENABLED",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""Variables that request an export."""


def environment_for(
    variables: dict[str, str], *, becomes: bool, records_folder: str | None = None
) -> dict[str, str]:
    """
    Return an environment that instruments a Python program and the programs it starts.

    Args:
        variables: The current environment.
        becomes: Whether this process becomes the program, and does not start it. Only the program
            reports that its Python has no latspan; programs that it starts, perhaps with another
            Python, do not.
        records_folder: Folder for the records of all processes; ``None`` if none are written.
    """
    process = os.getpid()
    # An empty entry of the path is the current folder; an empty variable has no entries.
    path = variables.get(_PYTHON_PATH) or None
    folders = [] if path is None else path.split(os.pathsep)
    return {
        **variables,
        _PYTHON_PATH: os.pathsep.join(
            [_BOOTSTRAP, *(folder for folder in folders if folder != _BOOTSTRAP)]
        ),
        _RUN_PID: str(process) if becomes else f"child of {process}",
        **({} if records_folder is None else {RECORDS_FOLDER: records_folder}),
    }


def start() -> None:
    """
    Instrument this program, and configure latspan when it is first needed.

    Until a client library is imported or something is recorded, no client library and no SDK is
    loaded and no thread is started, because most programs that an application starts need none of
    them.
    """
    with handle_internal_errors("the start of an instrumented program"):
        # Before the program sets its own handlers: a server restores the one that it found.
        export_at_sigterm(asleep=True)
        observer = _observer()
        expect_start(partial(_configure, observer))
        if observer is not None:
            observe(observer)
        auto_instrument()
        if observer is not None:
            observer.start()


def after_opentelemetry() -> None:
    """Entry point that OpenTelemetry's loader calls after it has switched everything on."""
    with handle_internal_errors("the start by OpenTelemetry's loader"):
        # OpenTelemetry's loader does not read latspan's own variable.
        unwanted = [name for name in instrumented() if disabled_by(name) is not None]
        if unwanted:
            uninstrument(*unwanted)
        export_at_sigterm(asleep=True)
        expect_start(_configure)


def requests_export(variables: Mapping[str, str]) -> bool:
    """Return whether a variable requests an export, for example with the address of a receiver."""
    return any(map(variables.get, _ENDPOINTS))


def _observer() -> Observer | None:
    """Return the observer of this program; ``None`` unless ``latspan doctor`` started it."""
    folder = os.environ.get(OBSERVATION_FOLDER)
    if not folder:
        return None
    from latspan._live.sdk._observer import Observer

    return Observer(Path(folder))


def _configure(observer: Observer | None = None) -> None:
    # A report needs no collector. If no address of one is set, nothing is exported.
    reports_only = os.environ.get(RECORDS_FOLDER) and not requests_export(os.environ)
    if observer is not None:
        observer.starts_for_program(now=True)
    try:
        if reports_only:
            configure(export_enabled=False)
        else:
            configure()
    except LatspanError as error:
        logger.warning("latspan stays off: %s", error)
        if observer is not None:
            observer.stays_off(error)
    except Exception:
        logger.exception("latspan stays off")
    finally:
        if observer is not None:
            observer.starts_for_program(now=False)
