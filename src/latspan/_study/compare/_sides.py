"""A side of a comparison: recordings, histogram logs or a baseline, found at a path."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from latspan._model.metrics import DURATION, LATENCY_METRICS
from latspan._model.recording import Population, Snapshot, snapshots_of, truncated_in
from latspan._model.recording.folder import is_recording, open_recording, refuse_copies
from latspan._model.segments import Kind, Outcome
from latspan._study.compare._baseline import BASELINE_SUFFIX, read_baseline, sample_of_histogram
from latspan._study.compare._run import (
    SEGMENT,
    STRATA,
    Profile,
    Run,
    RunForm,
    Stratum,
    run_of,
)
from latspan._study.stats import WeightedSample
from latspan.errors import RecordingError
from latspan.histogram import read_log

_LOG: Final = ".hlog"
_KINDS: Final = (Kind.REQUEST, Kind.CALL)


def runs_in(
    path: str | os.PathLike[str],
    *,
    step: int | None = None,
    where: Mapping[str, str | None] = MappingProxyType({}),
) -> list[Run]:
    """
    Return the runs at a path.

    Args:
        path: A recording; a folder of recordings, one per run; a histogram log (``.hlog``), or a
            folder of the logs of the processes of one run; a folder of such folders of logs; or a
            baseline file (``.json``).
        step: Step of each load test, from 0; the last one if not given.
        where: Attributes by which requests are selected or divided, with their value or ``None``.

    Raises:
        RecordingError: There is nothing of these at the path, or it cannot be read.
        HistogramFormatError: A log is damaged.
        ConfigError: A load test has no such step, or a recording is there several times.
    """
    runs = _found(Path(path), step, where)
    refuse_copies((run.name, run.recording) for run in runs)
    return runs


def _found(place: Path, step: int | None, where: Mapping[str, str | None]) -> list[Run]:
    if place.suffix == BASELINE_SUFFIX and not place.is_dir():
        return read_baseline(place)
    if place.suffix == _LOG and place.is_file():
        return [_run_of_logs([place], str(place))]
    if is_recording(place):
        return [run_of(open_recording(place), step=step, where=where)]
    inside = sorted(each for each in place.iterdir()) if place.is_dir() else []
    recordings = [open_recording(each) for each in inside if is_recording(each)]
    if recordings:
        ordered = sorted(recordings, key=lambda each: str(each.manifest.get("created", "")))
        return [run_of(each, step=step, where=where) for each in ordered]
    logs = [each for each in inside if each.suffix == _LOG]
    if logs:
        return [_run_of_logs(logs, str(place))]
    several = [(each, sorted(each.glob(f"*{_LOG}"))) for each in inside if each.is_dir()]
    if any(files for _, files in several):
        return [_run_of_logs(files, str(folder)) for folder, files in several if files]
    missing = None
    reason = "it has no recording and no .hlog file"
    if not place.exists():
        reason = "it does not exist"
        missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place))
    raise RecordingError(
        f"nothing to compare in {place}: {reason}",
        hint="record with: latspan run --record FOLDER -- PROGRAM, or latspan measure",
    ) from missing


def _run_of_logs(files: Sequence[Path], name: str) -> Run:
    merged: Snapshot | None = None
    notes: list[str] = []
    for file in files:
        log = read_log(file)
        try:
            for snapshot in snapshots_of(log):
                merged = snapshot if merged is None else merged.merge(snapshot)
        except OSError as error:
            raise RecordingError(
                f"cannot read {file}: {error.strerror}", hint="use the path of existing files"
            ) from error
        notes += truncated_in(log)
    if merged is None:
        raise RecordingError(f"{name} has no histogram", hint="was the program ended too early?")
    return replace(run_of_snapshot(merged, name), notes=tuple(notes))


def run_of_snapshot(snapshot: Snapshot, name_of_run: str) -> Run:
    """
    Return the run of the histograms of a snapshot.

    Args:
        snapshot: Its histograms of the outermost kind, requests or calls, become samples.
        name_of_run: Name for messages.

    Raises:
        RecordingError: The snapshot has no duration of a request or a call.
    """
    present = {Kind(key.subject.kind) for key in snapshot.series if key.metric == DURATION}
    kind = next((each for each in _KINDS if each in present), None)
    if kind is None:
        raise RecordingError(
            f"{name_of_run} has no durations of requests or calls",
            hint="compare logs of any other program with: latspan histogram diff",
        )
    durations = snapshot.metric(DURATION, kind=kind)
    known = durations.population or Population(durations.histogram)
    samples: dict[str, WeightedSample] = {}
    for metric, definition in LATENCY_METRICS.items():
        if definition.unit == "s":
            values = snapshot.metric(metric, kind=kind)
            population = values.population or Population(values.histogram)
            if population.count:
                samples[metric] = _sample(population)
    fine = known.exact.count
    for name in snapshot.segments(kind=kind):
        times = snapshot.segment(name, kind=kind, outcome=Outcome.COMPLETED.value).histogram
        samples[SEGMENT + name] = sample_of_histogram(times, zeros=fine - times.count)
    return Run(
        name=name_of_run,
        form=RunForm.HISTOGRAMS,
        kind=kind,
        units=known.count,
        failed=known.failed,
        cut=known.cut,
        samples=samples,
        profile=Profile(
            with_calls=None if Kind.CALL in present else 0.0,
            output_tokens=_mean(snapshot, "output_tokens", kind),
            input_tokens=_mean(snapshot, "input_tokens", kind),
        ),
        start_ns=snapshot.start_epoch_ns,
        strata=tuple(_strata(snapshot, kind)),
    )


def _strata(snapshot: Snapshot, kind: Kind) -> Iterator[Stratum]:
    for key, series in snapshot.series.items():
        if key.metric == DURATION and key.kind is kind and series.histogram.count:
            named = {name: key.attribute(name) for name in STRATA}
            attributes = {name: value for name, value in named.items() if value is not None}
            yield Stratum(attributes, None, series.histogram.count)


def _sample(population: Population) -> WeightedSample:
    """Return the values of a metric, with both ends if some are not known."""
    high = sample_of_histogram(population.exact, population.never + population.bounds.count)
    if not population.bounds.count:
        return high
    merged = population.exact.copy()
    merged.merge(population.bounds)
    return replace(sample_of_histogram(merged, population.never), upper=high)


def _mean(snapshot: Snapshot, metric: str, kind: Kind) -> float | None:
    """Return the mean of a token count; ``None`` if no request reports one."""
    values = snapshot.metric(metric, kind=kind, outcome=Outcome.COMPLETED.value)
    return values.mean() if values.count() else None
