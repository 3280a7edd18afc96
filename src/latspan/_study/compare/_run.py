"""
One run of a side of a comparison: its values, its conditions, and what its requests were like.

A run comes from a recording, from histogram logs or from a baseline file. All have samples of each
metric and segment. Only recordings contain individual requests. The order in time and groups of
requests can be computed only from individual requests. The segments near a percentile are computed
from them too, or read from a baseline file that stores them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from latspan._base.text import text_of
from latspan._model.goals import Target
from latspan._model.metrics import DURATION, OF_PACE, TIME_TO_FIRST_TOKEN
from latspan._model.recording import RequestRecord
from latspan._model.recording.folder import SCHEMA, Recording, load_test_of
from latspan._model.segments import Kind
from latspan._study.diagnose import Goal, RequestTable, bands_of, units_of
from latspan._study.measurement import answered_models, measured_kind, refuse_step, summarize
from latspan._study.stats import WeightedSample, effective_size, weighted_quantile
from latspan._study.table import Table, metric_of, read_table, table_of_records
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEGMENT: Final = "segment."
"""Prefix of the names of segments among samples."""

_UNTIL: Final = (DURATION, TIME_TO_FIRST_TOKEN)
STRATA: Final = ("route", "inference_path", "model", "traffic_class")
"""Attributes that divide requests into strata; all are set before the call."""

_MIN_COVERAGE: Final = 0.95
"""Fraction of the completed requests that must report a length for it to be known."""

_TAIL: Final = 90.0
"""Percentile from which lengths are compared next to their mean."""


class Division(StrEnum):
    """How the time of a unit is divided into segments."""

    STEPS = "steps"
    """A request has the segments of all that it waited for; a call has its own."""
    LAST_CALL = "last_call"
    """A request has the segments of its last call, as recordings of ``latspan.recording/1``."""
    HISTOGRAMS = "histograms"
    """Histograms have the segments of a request and those of a call apart."""


class RunForm(StrEnum):
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
        fraction: Fraction of the requests that is in it; ``None`` in a baseline of an older
            release.
    """

    value_ns: float
    segments_ns: Mapping[str, float]
    size: int
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Lengths:
    """
    Lengths of the answers of a run.

    Args:
        unit: ``tokens``, or ``chunks`` if the server did not report tokens.
        mean: Mean over completed requests.
        error: Standard error of the mean; ``None`` for a single request.
        longest: Mean over the longest tenth of them.
        longest_error: Its standard error; ``None`` for a single request.
    """

    unit: str
    mean: float
    error: float | None
    longest: float
    longest_error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """
    What the requests of a run were like; ``None`` where it is unknown.

    Args:
        models: Models that answered.
        with_calls: Fraction of the requests that contain a call.
        input_tokens: Mean number of input tokens.
        input_error: Standard error of that mean.
        long_input: Mean number of input tokens of the longest tenth.
        long_input_error: Standard error of that mean.
        output_tokens: Mean number of output tokens of completed requests.
        output_error: Standard error of that mean.
        output_chunks: Mean number of chunks of completed requests, if tokens are unknown.
        output_chunks_error: Standard error of that mean.
        long_output: Mean length of the longest tenth of the answers, in the unit that is known.
        long_output_error: Standard error of that mean.
        cached: Cached fraction of the input.
        load: What defines the load of a load test.
        per_s: Requests per second.
        in_flight: Mean number of requests in flight.
    """

    models: tuple[str, ...] = ()
    with_calls: float | None = None
    input_tokens: float | None = None
    input_error: float | None = None
    long_input: float | None = None
    long_input_error: float | None = None
    output_tokens: float | None = None
    output_error: float | None = None
    output_chunks: float | None = None
    output_chunks_error: float | None = None
    long_output: float | None = None
    long_output_error: float | None = None
    cached: float | None = None
    load: Mapping[str, Any] | None = None
    per_s: float | None = None
    in_flight: float | None = None

    @property
    def lengths(self) -> Lengths | None:
        """Lengths of the answers; ``None`` if neither tokens nor chunks are known."""
        for unit, mean, error in (
            ("tokens", self.output_tokens, self.output_error),
            ("chunks", self.output_chunks, self.output_chunks_error),
        ):
            if mean is not None:
                longest = mean if self.long_output is None else self.long_output
                return Lengths(unit, mean, error, longest, self.long_output_error)
        return None


class Stratum(NamedTuple):
    """
    Requests of one kind, without the requests themselves.

    Args:
        attributes: Attributes that the caller chose before the call, such as the route.
        streamed: Whether the response streams; ``None`` if it is unknown.
        requests: Number of requests, more than 0; in a sample, those that it stands for.
    """

    attributes: Mapping[str, str]
    streamed: bool | None
    requests: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    One run.

    Args:
        name: Name for messages, for example its folder.
        form: What it was read from.
        kind: Kind of its units.
        units: Number of units, failed ones included; in a sample, those that it stands for.
        failed: Number of failed units.
        cut: Number of units that their callers gave up.
        samples: Values in nanoseconds by metric, or by ``segment.`` and the name of a segment.
        profile: What its requests were like.
        conditions: Conditions under which it was made.
        targets: Targets of the load test.
        table: Its units; ``None`` unless read from a recording.
        tables: Units by goal metric; empty unless read from a recording.
        strata: Kinds of its requests if it has no table; empty if they are unknown.
        origin: What a baseline was made from; otherwise the form.
        divides_last_call: Whether its requests have the segments of their last call only.
        effective: Effective number of units of a sample without a table; ``None`` if each unit is
            one request.
        bands: Times near percentiles by goal, as far as they were stored.
        recording: Identifier of its recording; empty if it is unknown.
        start_ns: Unix time of its first request in nanoseconds; 0 if it is unknown.
        invalid: Why its numbers mean nothing, one sentence each.
        notes: What a reader must know, one sentence each.
    """

    name: str
    form: RunForm
    kind: Kind
    units: int
    failed: int
    cut: int = 0
    samples: Mapping[str, WeightedSample]
    profile: Profile = Profile()
    conditions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    targets: tuple[Target, ...] = ()
    table: Table | None = None
    tables: Mapping[str, RequestTable] = field(default_factory=dict[str, RequestTable])
    strata: tuple[Stratum, ...] = ()
    origin: RunForm | None = None
    divides_last_call: bool = False
    effective: float | None = None
    bands: Mapping[str, Band] = field(default_factory=dict[str, Band])
    recording: str = ""
    start_ns: int = 0
    invalid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> float:
        """Effective number of units: that of the evidence, if the units are a sample."""
        if self.table is not None:
            return effective_size(self.table.weight)
        return self.units if self.effective is None else self.effective

    @property
    def has_histograms_only(self) -> bool:
        """Whether it never had single requests, so that it is not known which of them stream."""
        return (self.origin or self.form) is RunForm.HISTOGRAMS

    @property
    def division(self) -> Division:
        """How the time of a unit is divided; segments of different divisions are not compared."""
        if self.has_histograms_only:
            return Division.HISTOGRAMS
        return Division.LAST_CALL if self.divides_last_call else Division.STEPS

    def band(self, metric: str, percentile: float, *, min_fraction: float = 0.0) -> Band | None:
        """
        Return the times near a percentile; ``None`` if they are unknown.

        Args:
            metric: Metric of the goal.
            percentile: Percentile of the goal.
            min_fraction: Least fraction of the requests that is in the band.
        """
        if self.table is None or metric not in self.tables:
            return self.bands.get(f"p{percentile:g} {metric}")
        units = self.tables[metric].at(percentile)
        found = bands_of(units, min_fraction=min_fraction)
        if found is None:
            return None
        means = zip(units.names, found.segment_means_ns(found.tail).tolist(), strict=True)
        times = {name: mean for name, mean in means if mean > 0}
        return Band(found.mean_ns(found.tail), times, len(found.tail), found.fraction)


def have_one_division(runs: Iterable[Run]) -> bool:
    """Return whether the segments of runs can be compared."""
    return len({run.division for run in runs}) == 1


def run_of(
    recording: Recording,
    *,
    step: int | None = None,
    where: Mapping[str, str | None] = MappingProxyType({}),
) -> Run:
    """
    Return the run of a recording.

    Args:
        recording: The recording. Of a load test, the measured requests of one step count.
        step: Number of the step, from 0; the last one if not given.
        where: Attributes by which requests are selected or divided, with their value or ``None``.

    Raises:
        ConfigError: There is no such step.
        OSError: A file cannot be read.
    """
    load_test = load_test_of(recording.manifest)
    accounts = () if load_test is None else load_test.steps
    number = len(accounts) - 1 if step is None else step
    is_ended = load_test is not None and bool(load_test.ended and accounts)
    refuse_step(recording, step)
    if is_ended and not 0 <= number < len(accounts):
        raise ConfigError(
            f"{recording.folder} has no step {number}",
            hint=f"use a number from 0 to {len(accounts) - 1}",
        )
    every = read_table(
        recording,
        _UNTIL,
        kind=None if load_test is None else measured_kind(recording),
        attributes=STRATA,
        where=where,
    )
    run = run_of_table(
        every.rows(every.measured(None if load_test is None else max(number, 0))),
        str(recording.folder),
        load=accounts[number].load if is_ended else None,
    )
    invalid: list[str] = []
    targets: tuple[Target, ...] = ()
    if is_ended:
        judged = summarize(recording, every).steps[number]
        invalid += [each.text for each in judged.caveats if each.invalidates]
        targets = tuple(result.target for result in judged.targets)
    elif load_test is not None:
        invalid.append("the measuring process did not exit cleanly")
    return replace(
        run,
        conditions=_conditions(recording),
        targets=targets,
        divides_last_call=run.kind is Kind.REQUEST and recording.manifest["schema"] != SCHEMA,
        recording=text_of(recording.manifest.get("id", "")),
        invalid=tuple(invalid),
        notes=recording.notes,
    )


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
    return run_of_table(table_of_records(records, _UNTIL, kind=kind), name, load=load)


def run_of_table(table: Table, name: str, *, load: Mapping[str, Any] | None = None) -> Run:
    """
    Return the run of a table.

    Args:
        table: The units, with the times of segments up to the end and up to the first token.
        name: Name for messages.
        load: What defines the load of a load test.
    """
    return _run(
        Run(
            name=name,
            form=RunForm.RECORDING,
            kind=table.kind,
            units=0,
            failed=0,
            samples={},
            profile=Profile(load=load, models=tuple(answered_models(table))),
            table=table,
            start_ns=int(table.start_ns[0]) if len(table) else 0,
        ),
        table,
    )


def _conditions(recording: Recording) -> dict[str, Any]:
    written = {"latspan": recording.manifest.get("latspan"), **recording.conditions}
    return {name: value for name, value in written.items() if value is not None}


def where_of(run: Run, where: Mapping[str, str]) -> Run:
    """
    Return the part of a run whose requests have all of some attributes.

    Args:
        run: The run.
        where: Value of each attribute; the whole run is returned if it is empty.

    Raises:
        ConfigError: The run has no single requests, or none with such an attribute.
    """
    if not where:
        return run
    if run.table is None:
        raise ConfigError(
            f"{run.name} has no single requests, so none can be selected",
            hint="compare recordings, or omit --where",
        )
    part = _run(replace(run), run.table.matching(where))
    # The load of a system is that of all its requests.
    profile = replace(part.profile, per_s=run.profile.per_s, in_flight=run.profile.in_flight)
    return replace(part, profile=profile)


def part_of(run: Run, name: str, value: str) -> Run:
    """
    Return the part of a run whose requests have an attribute.

    Args:
        run: A run of a recording.
        name: Name of the attribute.
        value: Its value.

    Raises:
        ValueError: The run has no single requests.
    """
    table = _table_of(run)
    codes, values = table.groups.get(name, (np.full(len(table), -1), ()))
    chosen = codes == (values.index(value) if value in values else -2)
    return _run(replace(run, name=f"{run.name}, {name} {value}"), table.rows(chosen))


def reweighted(run: Run, factors: NDArray[np.float64]) -> Run:
    """
    Return a run whose requests have other weights.

    Args:
        run: A run of a recording.
        factors: Factor of the weight of each request, at least 0; shape ``(n,)``. Requests with a
            factor of 0 are left out.

    Raises:
        ValueError: The run has no single requests.
    """
    table = _table_of(run)
    kept = factors > 0
    weighted = replace(table, weight=table.weight * factors).rows(kept)
    return _run(replace(run), weighted)


def _table_of(run: Run) -> Table:
    if run.table is None:
        raise ValueError(f"{run.name} has no single requests")
    return run.table


def _run(run: Run, table: Table) -> Run:
    """Return a run with everything that follows from its table."""
    kind = table.kind
    tables = {DURATION: units_of(table, Goal(DURATION, kind=kind))}
    first = metric_of(TIME_TO_FIRST_TOKEN, kind)
    until_first = units_of(table, Goal(first, kind=kind))
    if np.isfinite(until_first.low_ns).any() or _has_streams(table):
        tables[first] = until_first
    return replace(
        run,
        units=round(table.requests),
        failed=round(float(table.weight[table.failed].sum())),
        cut=round(float(table.weight[table.cut].sum())),
        samples=_samples(table, tables),
        profile=_profile(table, run.profile),
        table=table,
        tables=tables,
    )


def _covering(values: NDArray[np.float64], fine: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return lengths, none if too few of the completed requests report theirs."""
    known = np.isfinite(values[fine])
    if len(known) and known.mean() < _MIN_COVERAGE:
        return np.full(len(values), math.nan)
    return values


def _has_streams(table: Table) -> bool:
    return bool((table.streamed == 1).any())


def _samples(table: Table, tables: Mapping[str, RequestTable]) -> dict[str, WeightedSample]:
    samples = {
        metric: WeightedSample.between(each.low_ns, each.high_ns, each.weight)
        for metric, each in tables.items()
    }
    if table.kind is Kind.CALL:
        for metric in OF_PACE:
            known = table.bounds(metric)
            if known.exact.any():
                applies = known.applies
                samples[metric] = WeightedSample.between(
                    known.low[applies], known.high[applies], table.weight[applies]
                )
    # Segments are compared over the completed requests: one that was left has no later segments.
    # A mask copies, so a slice is used where it can be.
    fine = slice(None) if table.completed.all() else table.completed
    times, weight = table.segments[DURATION].times_ns[fine], table.weight[fine]
    for index, name in enumerate(table.names):
        values = times[:, index]
        samples[SEGMENT + name] = WeightedSample.between(values, values, weight)
    return samples


def _profile(table: Table, known: Profile) -> Profile:
    fine = table.completed
    weight = table.weight
    tokens, cached = table.number("input_tokens"), table.number("cached_tokens")
    counted = np.isfinite(tokens)
    both = counted & np.isfinite(cached)
    input_sum = float(tokens[both] @ weight[both])
    span_s = (table.start_ns[-1] - table.start_ns[0]) / 1e9 if len(table) > 1 else 0.0
    output = table.number("output_tokens")
    chunks = table.number("chunks")
    output, chunks = (_covering(each, fine) for each in (output, chunks))
    has_tokens = bool(np.isfinite(output[fine]).any())
    lengths = output if has_tokens else chunks
    tokens_mean, tokens_error = _mean(output[fine], weight[fine])
    chunks_mean, chunks_error = (None, None) if has_tokens else _mean(chunks[fine], weight[fine])
    long_mean, long_error = _longest(lengths[fine], weight[fine])
    input_mean, input_error = _mean(tokens, weight)
    long_input, long_input_error = _longest(tokens, weight)
    return replace(
        known,
        with_calls=float(weight[table.chains > 0].sum()) / table.requests if len(table) else None,
        input_tokens=input_mean,
        input_error=input_error,
        long_input=long_input,
        long_input_error=long_input_error,
        output_tokens=tokens_mean,
        output_error=tokens_error,
        output_chunks=chunks_mean,
        output_chunks_error=chunks_error,
        long_output=long_mean,
        long_output_error=long_error,
        cached=float(cached[both] @ weight[both]) / input_sum if input_sum else None,
        per_s=(table.requests - 1) / float(span_s) if span_s > 0 else None,
        in_flight=float(table.duration_ns @ weight) / 1e9 / float(span_s) if span_s > 0 else None,
    )


def _mean(
    values: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """Return the weighted mean of the known values and its standard error."""
    known = np.isfinite(values)
    if not known.any():
        return None, None
    values, weights = values[known], weights[known]
    total = float(weights.sum())
    mean = float(values @ weights) / total
    if len(values) < 2:
        return mean, None
    squares = float(((weights * (values - mean)) ** 2).sum())
    return mean, math.sqrt(squares * len(values) / (len(values) - 1)) / total


def _longest(
    values: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """
    Return the weighted mean of the largest tenth of the known values, and its standard error.

    Source: the asymptotic variance of the expected shortfall; Scaillet (2004), Nonparametric
    Estimation and Sensitivity Analysis of Expected Shortfall.
    """
    known = np.isfinite(values)
    if not known.any():
        return None, None
    values, weights = values[known], weights[known]
    least = weighted_quantile(values, weights, _TAIL)
    chosen = values >= least
    mean, error = _mean(values[chosen], weights[chosen])
    if mean is None or error is None:
        return mean, None
    size = effective_size(weights[chosen])
    return mean, math.sqrt(error**2 + _TAIL / 100 * (mean - least) ** 2 / size)
