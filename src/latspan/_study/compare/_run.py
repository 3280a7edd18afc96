"""
One run of a side of a comparison: its values, its conditions, and what its requests were like.

A run comes from a recording, from histogram logs or from a baseline file. All have samples of each
metric and segment. Only recordings contain individual requests. The order in time and groups of
requests can be computed only from individual requests. The segments near a percentile are computed
from them too, or read from a baseline file that stores them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan import semconv
from latspan._recording import RequestRecord
from latspan._recording.folder import Recording
from latspan._segments import Kind
from latspan._study.diagnose import Goal, RequestTable, TableBuilder, attribute
from latspan._study.measurement import Summing, measured_step
from latspan._study.stats import Sample
from latspan._targets import Target
from latspan._text import text_of
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SEGMENT", "Band", "Form", "Profile", "Run", "part_of", "run_of", "run_of_records"]

SEGMENT: Final = "segment."
"""Prefix of the names of segments among samples."""

_DURATION: Final = "duration"
_FIRST: Final = {
    Kind.CALL: "time_to_first_token",
    Kind.REQUEST: "time_to_first_visible_token",
}
_OF_CALLS: Final = ("time_per_output_token", "chunk_gap_max")


class Form(StrEnum):
    """What a run was read from."""

    RECORDING = "recording"
    HISTOGRAMS = "histograms"
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class Band:
    """
    Times near a percentile: means over the requests of its tail band, which add up.

    Args:
        value_ns: Mean of the goal metric in nanoseconds.
        segments_ns: Mean time of each segment in nanoseconds, by name.
        size: Number of requests in the tail band.
    """

    value_ns: float
    segments_ns: Mapping[str, float]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """
    What the requests of a run were like; ``None`` where it is unknown.

    Args:
        models: Models that answered.
        input_tokens: Mean number of input tokens.
        output_tokens: Mean number of output tokens of completed requests.
        output_error: Standard error of that mean.
        cached: Cached fraction of the input.
        load: What defines the load of a load test.
        per_s: Requests per second.
    """

    models: tuple[str, ...] = ()
    input_tokens: float | None = None
    output_tokens: float | None = None
    output_error: float | None = None
    cached: float | None = None
    load: Mapping[str, Any] | None = None
    per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    One run.

    Args:
        name: Name for messages, for example its folder.
        form: What it was read from.
        kind: Kind of its units.
        units: Number of units, failed ones included.
        failed: Number of failed units.
        samples: Values in nanoseconds by metric, or by ``segment.`` and the name of a segment.
        profile: What its requests were like.
        conditions: Conditions under which it was made.
        targets: Targets of the load test.
        tables: Units by goal metric; empty unless read from a recording.
        bands: Times near percentiles by goal, as far as they were stored.
        recording: Identifier of its recording; empty if it is unknown.
        invalid: Why its numbers mean nothing, one sentence each.
        notes: What a reader must know, one sentence each.
    """

    name: str
    form: Form
    kind: Kind
    units: int
    failed: int
    samples: Mapping[str, Sample]
    profile: Profile = Profile()
    conditions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    targets: tuple[Target, ...] = ()
    tables: Mapping[str, RequestTable] = field(default_factory=dict[str, RequestTable])
    bands: Mapping[str, Band] = field(default_factory=dict[str, Band])
    recording: str = ""
    invalid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def band(self, metric: str, percentile: float) -> Band | None:
        """Return the times near a percentile; ``None`` if they are unknown."""
        table = self.tables.get(metric)
        if table is None:
            return self.bands.get(f"p{percentile:g} {metric}")
        goal = Goal(metric, percentile, kind=table.goal.kind)
        found = attribute(replace(table, goal=goal))
        if found is None:
            return None
        times = {share.name: share.mean_ns for share in found.shares}
        return Band(found.tail_ns, times, len(found.tail))


def run_of(recording: Recording, *, step: int | None = None) -> Run:
    """
    Return the run of a recording.

    Args:
        recording: The recording. Of a load test, the measured requests of one step count.
        step: Number of the step, from 0; the last one if not given.

    Raises:
        ConfigError: There is no such step.
        OSError: A file cannot be read.
    """
    about: Mapping[str, Any] = recording.manifest.get("measurement", {})
    accounts: Sequence[Mapping[str, Any]] = about.get("steps", ())
    number = len(accounts) - 1 if step is None else step
    is_ended = bool(about.get("ended")) and bool(accounts)
    if about and is_ended and not 0 <= number < len(accounts):
        raise ConfigError(
            f"{recording.folder} has no step {number}",
            hint=f"use a number from 0 to {len(accounts) - 1}",
        )
    summing = Summing(recording) if about else None
    run = run_of_records(
        _counting(recording, max(number, 0), summing),
        str(recording.folder),
        kind=None if summing is None else summing.kind,
        load=accounts[number].get("load", {}) if is_ended else None,
    )
    invalid: list[str] = []
    targets: tuple[Target, ...] = ()
    if summing is not None and is_ended:
        judged = summing.measurement().steps[number]
        invalid += [each.text for each in judged.caveats if each.invalidates]
        targets = tuple(result.target for result in judged.targets)
    elif summing is not None:
        invalid.append("the process that measured did not end in order")
    return replace(
        run,
        conditions=_conditions(recording),
        targets=targets,
        recording=text_of(recording.manifest.get("id", "")),
        invalid=tuple(invalid),
        notes=recording.notes,
    )


def _counting(
    recording: Recording, number: int, summing: Summing | None
) -> Iterator[RequestRecord]:
    """Yield the records of a step that count, and add all of them to the summary."""
    counts = measured_step(recording, number)
    for record in recording.records():
        if summing is not None:
            summing.add(record)
        if counts(record):
            yield record


def run_of_records(
    records: Iterable[RequestRecord],
    name: str,
    *,
    kind: Kind | None = None,
    load: Mapping[str, Any] | None = None,
) -> Run:
    """
    Return the run of some records.

    Args:
        records: The records, read once.
        name: Name for messages.
        kind: Kind of the units; ``None`` for requests if there are any, and calls otherwise.
        load: What defines the load of a load test.
    """
    models: set[str] = set()
    builder = TableBuilder(Goal(_DURATION, kind=kind), Goal(_FIRST[Kind.CALL], kind=kind))
    for record in _noting(records, models):
        builder.add(record)
    durations, until_first = builder.tables()
    tables = {_DURATION: durations}
    has_streams = until_first.failed.sum() > durations.failed.sum()
    if has_streams or np.isfinite(until_first.value_ns).any():
        # A request as a whole has only the time until its user sees something.
        first = _FIRST[durations.kind]
        tables[first] = replace(until_first, goal=Goal(first, kind=durations.kind))
    return _run(
        Run(
            name=name,
            form=Form.RECORDING,
            kind=durations.kind,
            units=0,
            failed=0,
            samples={},
            profile=Profile(load=load, models=tuple(sorted(models))),
            tables=tables,
        )
    )


def _conditions(recording: Recording) -> dict[str, Any]:
    written = {"latspan": recording.manifest.get("latspan"), **recording.conditions}
    return {name: value for name, value in written.items() if value is not None}


def part_of(run: Run, name: str, value: str) -> Run:
    """
    Return the part of a run whose requests have an attribute.

    Args:
        run: A run of a recording.
        name: Name of the attribute.
        value: Its value.
    """
    tables = {metric: table.rows(_with(table, name, value)) for metric, table in run.tables.items()}
    return _run(replace(run, name=f"{run.name}, {name} {value}", tables=tables))


def _with(table: RequestTable, name: str, value: str) -> NDArray[np.bool_]:
    codes, values = table.groups.get(name, (np.full(len(table), -1), ()))
    return codes == (values.index(value) if value in values else -2)


def _run(run: Run) -> Run:
    """Return a run with everything that follows from its tables."""
    table = run.tables[_DURATION]
    return replace(
        run,
        units=len(table),
        failed=int(table.failed.sum()),
        samples=_samples(run.tables),
        profile=_profile(table, run.profile),
    )


def _samples(tables: Mapping[str, RequestTable]) -> dict[str, Sample]:
    durations = tables[_DURATION]
    fine = ~durations.failed
    # A stream without a token is complete, and never reaches a first token.
    samples = {
        metric: Sample.of(
            table.value_ns[~table.failed & np.isfinite(table.value_ns)], int(table.failed.sum())
        )
        for metric, table in tables.items()
    }
    if durations.kind is Kind.CALL:
        for metric in _OF_CALLS:
            values = durations.number(metric)[fine]
            values = values[np.isfinite(values)]
            if len(values):
                samples[metric] = Sample.of(values)
    for index, name in enumerate(durations.names):
        samples[SEGMENT + name] = Sample.of(durations.segments_ns[fine, index])
    return samples


def _profile(table: RequestTable, known: Profile) -> Profile:
    fine = ~table.failed
    output = table.number("output_tokens")[fine]
    output = output[np.isfinite(output)]
    tokens, cached = table.number("input_tokens"), table.number("cached_tokens")
    counted = np.isfinite(tokens)
    both = counted & np.isfinite(cached)
    span_s = (table.start_ns[-1] - table.start_ns[0]) / 1e9 if len(table) > 1 else 0.0
    return replace(
        known,
        input_tokens=float(tokens[counted].mean()) if counted.any() else None,
        output_tokens=float(output.mean()) if len(output) else None,
        output_error=(
            float(output.std(ddof=1)) / math.sqrt(len(output)) if len(output) > 1 else None
        ),
        cached=(
            float(cached[both].sum() / tokens[both].sum())
            if both.any() and tokens[both].sum()
            else None
        ),
        per_s=float((len(table) - 1) / span_s) if span_s else None,
    )


def _noting(records: Iterable[RequestRecord], models: set[str]) -> Iterator[RequestRecord]:
    """Yield the records, and add the models that answered."""
    for record in records:
        model = record.details.get(semconv.GEN_AI_RESPONSE_MODEL)
        if isinstance(model, str):
            models.add(model)
        yield record
