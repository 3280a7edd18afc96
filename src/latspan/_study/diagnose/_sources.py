"""Sources of a diagnosis: a recording, traces in a file or a backend, and histogram logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from latspan._model.goals import Budget
from latspan._model.recording.folder import Recording, is_recording, open_recording
from latspan._study.diagnose._diagnosis import Diagnosis, diagnose
from latspan._study.diagnose._facts import Calibration
from latspan._study.diagnose._goal import Goal
from latspan._study.diagnose._histograms import diagnose_logs
from latspan._study.diagnose._recordings import (
    calibration_from,
    diagnose_recording,
    invalid_calibration,
)
from latspan._study.traces import Imported, TraceQuery, is_url, read_any, read_backend
from latspan.errors import ConfigError

_LOG: Final = ".hlog"
_ROUTE: Final = "route"


def diagnose_source(
    source: str,
    goal: Goal | None = None,
    *,
    traces: TraceQuery | None = None,
    step: int | None = None,
    calibration: Recording | None = None,
    budget: Budget | None = None,
    stable_tokens: float | None = None,
    where: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Diagnosis:
    """
    Return the one delay to fix in a source.

    Args:
        source: A recording, a file of OTLP/JSON traces, the URL of Jaeger or Tempo, or a histogram
            log or a folder of them.
        goal: Metric and percentile to explain; see :func:`diagnose_recording`.
        traces: Which traces to read; the service and the route also select from a file, and the
            route from a recording.
        step: Number of the step of a load test; only a recording has steps.
        calibration: Recording of a load test at concurrency 1.
        budget: Limits of components.
        stable_tokens: Number of tokens at the start of each prompt that are the same in all.
        where: Value of each attribute that the requests must have; all requests if not given.
        by: Attribute by whose values the requests are divided, if they are.

    Raises:
        ConfigError: A backend does not answer, or an argument does not apply to the source.
        HistogramFormatError: A log is damaged.
        OSError: A file cannot be read.
        RecordingError: The source has no requests that can be read.
    """
    query = traces or TraceQuery()
    path = Path(source)
    if not is_url(source) and (is_recording(path) or not _is_foreign(path)):
        _refuse(source, "a recording", {"service": query.service})
        if query.route is not None:
            where = {**(where or {}), _ROUTE: query.route}
        return diagnose_recording(
            open_recording(path),
            goal,
            step=step,
            calibration=calibration,
            budget=budget,
            stable_tokens=stable_tokens,
            where=where,
            by=by,
        )
    if not is_url(source) and (path.is_dir() or path.suffix == _LOG):
        given = {
            "service": query.service,
            "route": query.route,
            "step": step,
            "where": where or None,
            "by": by,
        }
        _refuse(source, "a histogram log", {**given, "calibration": calibration})
        return diagnose_logs(sorted(path.glob(f"*{_LOG}")) if path.is_dir() else [path], goal)
    _refuse(source, "a trace", {"step": step})
    imported = _traces_of(source, query)
    notes = list(imported.notes)
    calibrated: Calibration | None = None
    if calibration is not None:
        calibrated, fault = calibration_from(calibration)
        if fault:
            notes.append(invalid_calibration(calibration, fault))
    return diagnose(
        imported.records,
        goal or Goal(),
        calibration=calibrated,
        budget=budget,
        stable_tokens=stable_tokens,
        where=where,
        by=by,
        notes=notes,
    )


def _is_foreign(path: Path) -> bool:
    """Return whether a path is a file, or a folder of histogram logs."""
    return path.is_file() or (path.is_dir() and any(path.glob(f"*{_LOG}")))


def _traces_of(source: str, query: TraceQuery) -> Imported:
    if is_url(source):
        return read_backend(source, query)
    return read_any(source, service=query.service, route=query.route)


def _refuse(source: str, what: str, given: Mapping[str, Any]) -> None:
    """Raise an error for an argument that would have no effect."""
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"--{name} does not apply to {what}: {source}", hint=f"omit --{name}")
