"""
Baseline: the runs of a side as one small JSON file, kept in a repository.

It has a histogram of each metric and segment, conditions, and the segments near the usual
percentiles, and the mix of the requests, but no single request, so it is small and has no attribute
of a user. For everything but groups of requests, it replaces the recordings of the runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict, cast

import numpy as np

from latspan._base.shown import printable
from latspan._model.goals import Target
from latspan._model.segments import Kind
from latspan._study.compare._mix import stored_strata
from latspan._study.compare._run import SEGMENT, Band, Profile, Run, RunForm, Stratum
from latspan._study.fields import Count, Limits, Percentile
from latspan._study.stats import WeightedSample
from latspan._version import __version__
from latspan.errors import ConfigError, HistogramFormatError, LatspanError, RecordingError
from latspan.histogram import Histogram, decode, encode
from latspan.histogram._buckets import middle_value_of

BASELINE_SCHEMA: Final = "latspan.baseline/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

BASELINE_SUFFIX: Final = ".json"
"""End of the name of a baseline file, by which it is recognised as a side."""

_PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0)
_MAX_STRATA: Final = 1_000
"""Number of kinds of requests above which a baseline has no mix."""
_MAX_BYTES: Final = 64_000_000
_MAX_NUMBER: Final = 2**62
"""Largest time, count and number: the sum of any two of them has 64 bits."""
_DAMAGED: Final = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
    HistogramFormatError,
)


class _RunName(TypedDict):
    name: Annotated[str, "Name of its folder or file"]
    recording: NotRequired[Annotated[str, "Identifier of its recording"]]


class _Details(TypedDict):
    cut: NotRequired[Annotated[Count, "Requests or calls that were given up"]]
    start_ns: NotRequired[Annotated[Count, "Unix time of its first request in nanoseconds"]]
    effective: NotRequired[
        Annotated[float, Limits(minimum=0), "Effective number of units, if they are a sample"]
    ]
    origin: NotRequired[Annotated[RunForm, "histograms, if it was made from histograms alone"]]
    divides_last_call: NotRequired[
        Annotated[bool, "Whether requests have the segments of their last call only"]
    ]
    notes: NotRequired[list[str]]


class BaselineProfile(TypedDict):
    """What the requests of a run were like, as far as it is known; errors are standard errors."""

    models: NotRequired[Annotated[list[str], "Models that answered"]]
    with_calls: NotRequired[Annotated[float, "Fraction of the requests that contain a call"]]
    input_tokens: NotRequired[Annotated[float, "Mean number of input tokens"]]
    input_error: NotRequired[float]
    long_input: NotRequired[Annotated[float, "Mean number of input tokens of the longest tenth"]]
    long_input_error: NotRequired[float]
    output_tokens: NotRequired[Annotated[float, "Mean number of output tokens"]]
    output_error: NotRequired[float]
    output_chunks: NotRequired[Annotated[float, "Mean number of chunks, if tokens are unknown"]]
    output_chunks_error: NotRequired[float]
    long_output: NotRequired[
        Annotated[float, "Mean length of the longest tenth of the answers, in tokens or chunks"]
    ]
    long_output_error: NotRequired[float]
    cached: NotRequired[Annotated[float, "Cached fraction of the input"]]
    load: NotRequired[
        Annotated[dict[str, object], "What defines the load, for example rate_per_s and pattern"]
    ]
    per_s: NotRequired[Annotated[float, "Requests per second"]]
    in_flight: NotRequired[Annotated[float, "Mean number of requests in flight"]]


class BaselineStratum(TypedDict):
    """Number of requests of one kind."""

    attributes: Annotated[
        dict[str, str], "What the caller chose before the call, for example route and model"
    ]
    streamed: NotRequired[Annotated[bool, "Whether the response streams"]]
    requests: Annotated[float, Limits(above=0)]


class _Strata(TypedDict):
    mix: NotRequired[Annotated[list[BaselineStratum], "Kinds of the requests, if they are known"]]


class BaselineTarget(TypedDict):
    """A target of the load test."""

    metric: str
    percentile: Percentile
    limit_ns: Count


class BaselineBand(TypedDict):
    """Mean times of the requests near a percentile."""

    mean_ns: Annotated[Count, "Mean of the metric"]
    requests: Annotated[Count, "Number of requests near the percentile"]
    fraction: NotRequired[Annotated[float, "Fraction of all requests"]]
    segments_ns: Annotated[dict[str, Count], "Mean time in each segment"]


class BaselineValues(TypedDict):
    """Values in nanoseconds."""

    failed: Annotated[Count, "Failed requests, which are slower than all others"]
    counts: Annotated[str, "Number of each value, encoded as HdrHistogram does"]


class BaselineSample(BaselineValues):
    """Values of a metric or a segment in nanoseconds."""

    upper: NotRequired[
        Annotated[
            BaselineValues, "Upper ends, if requests that were given up leave the values open"
        ]
    ]


class BaselineRun(_RunName, _Details, _Strata):
    """One run, without its requests."""

    kind: Kind
    units: Annotated[Count, "Requests or calls, failed ones included"]
    failed: Count
    conditions: Annotated[dict[str, object], "Conditions of the recording"]
    profile: BaselineProfile
    targets: list[BaselineTarget]
    bands: Annotated[dict[str, BaselineBand], "Times near a percentile, for example p95 duration"]
    histograms: Annotated[
        dict[str, BaselineSample], "By metric, or by segment. and the name of a segment"
    ]


class BaselineDocument(TypedDict):
    """Runs of one side of a comparison: latspan compare --save-baseline FILE."""

    schema: Literal["latspan.baseline/1"]
    latspan: Annotated[str, "Version of latspan"]
    runs: list[BaselineRun]


def sample_of_histogram(histogram: Histogram, failed: int = 0, zeros: int = 0) -> WeightedSample:
    """
    Return the values of a histogram.

    Args:
        histogram: Values in nanoseconds.
        failed: Number of failed requests.
        zeros: Number of further values of zero, for example of requests without a segment.
    """
    counts = {middle_value_of(index): count for index, count in histogram}
    if zeros > 0:
        counts[0] = counts.get(0, 0) + zeros
    return WeightedSample.of_counts(sorted(counts.items()), failed)


def baseline_document(runs: Sequence[Run]) -> BaselineDocument:
    """Return the baseline of some runs as plain data, ready for ``json.dumps``."""
    return {
        "schema": BASELINE_SCHEMA,
        "latspan": __version__,
        "runs": [_written(run) for run in runs],
    }


def _written(run: Run) -> BaselineRun:
    metrics = [name for name in run.samples if not name.startswith(SEGMENT)]
    bands = {
        f"p{percentile:g} {metric}": run.band(metric, percentile)
        for metric in (run.tables or metrics)
        for percentile in _PERCENTILES
    }
    return {
        **_written_name(run),
        "kind": run.kind,
        "units": run.units,
        "failed": run.failed,
        **_written_details(run),
        "conditions": dict(run.conditions),
        "profile": _written_profile(run.profile),
        **_written_strata(stored_strata(run)),
        "targets": [
            {"metric": each.metric, "percentile": each.percentile, "limit_ns": each.limit_ns}
            for each in run.targets
        ],
        "bands": {name: _written_band(band) for name, band in bands.items() if band is not None},
        "histograms": {name: _written_sample(sample) for name, sample in run.samples.items()},
    }


def _written_name(run: Run) -> _RunName:
    # A run that was itself read from a baseline has the name of that file before its own.
    name = run.name.rpartition(": ")[2] if run.form is RunForm.BASELINE else run.name
    written: _RunName = {"name": Path(name).name}
    if run.recording:
        written["recording"] = run.recording
    return written


def _written_details(run: Run) -> _Details:
    """Return the fields that most runs do not need."""
    written: _Details = {}
    if run.cut:
        written["cut"] = run.cut
    if run.start_ns:
        written["start_ns"] = run.start_ns
    if run.size < run.units:
        written["effective"] = run.size
    if run.has_histograms_only:
        written["origin"] = RunForm.HISTOGRAMS
    if run.divides_last_call:
        written["divides_last_call"] = True
    if run.notes:
        written["notes"] = list(run.notes)
    return written


def _written_profile(profile: Profile) -> BaselineProfile:
    known = {
        name: value for name, value in asdict(profile).items() if value is not None and value != ()
    }
    # Its fields have the names of those of a profile.
    return cast("BaselineProfile", known)


def _written_strata(strata: Sequence[Stratum]) -> _Strata:
    """Return the mix; nothing if it is unknown, or has so many kinds that it is no mix."""
    if not 0 < len(strata) <= _MAX_STRATA:
        return {}
    return {"mix": [_written_stratum(each) for each in strata]}


def _written_stratum(stratum: Stratum) -> BaselineStratum:
    attributes = dict(stratum.attributes)
    if stratum.streamed is None:
        return {"attributes": attributes, "requests": stratum.requests}
    return {
        "attributes": attributes,
        "streamed": stratum.streamed,
        "requests": stratum.requests,
    }


def _written_band(band: Band) -> BaselineBand:
    mean_ns = round(band.value_ns)
    segments_ns = {each: round(ns) for each, ns in band.segments_ns.items()}
    if band.fraction is None:
        return {"mean_ns": mean_ns, "requests": band.size, "segments_ns": segments_ns}
    return {
        "mean_ns": mean_ns,
        "requests": band.size,
        "fraction": band.fraction,
        "segments_ns": segments_ns,
    }


def _written_sample(sample: WeightedSample) -> BaselineSample:
    written: BaselineSample = {**_written_values(sample)}
    if sample.upper is not None:
        written["upper"] = _written_values(sample.upper)
    return written


def _written_values(sample: WeightedSample) -> BaselineValues:
    """
    Return a sample as counts.

    A weighted sample is written with as many values as it has evidence, so that a comparison does
    not take it for a larger one.
    """
    scale = sample.size / sample.total if sample.effective is not None and sample.total else 1.0
    reached = np.round(np.cumsum(sample.counts) * scale).astype(np.int64)
    counts = np.diff(reached, prepend=0)
    histogram = Histogram()
    values = np.repeat(sample.values, counts).round().astype(np.int64)
    histogram.record_many(values.tolist())
    return {"failed": round(sample.failed * scale), "counts": encode(histogram)}


def check_baseline_name(file: str | os.PathLike[str]) -> None:
    """
    Raise an error if a file to write would not be read as a baseline.

    Raises:
        ConfigError: Its name does not end in ``.json``.
    """
    if Path(file).suffix != BASELINE_SUFFIX:
        raise ConfigError(
            f"{file} is not the name of a baseline: it does not end in {BASELINE_SUFFIX}",
            hint=f"for example --save-baseline {Path(file).stem or 'latency'}{BASELINE_SUFFIX}",
        )


def read_baseline(file: Path) -> list[Run]:
    """
    Return the runs of a baseline file.

    Args:
        file: File that ``latspan compare --save-baseline`` wrote.

    Raises:
        RecordingError: The file cannot be read, is damaged, or a later release wrote it.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise RecordingError(
            f"cannot read {file}: {error.strerror}",
            hint="write a baseline with: latspan compare --save-baseline FILE RECORDING",
        ) from error
    try:
        document = json.loads(content[:_MAX_BYTES])
    except (ValueError, RecursionError) as error:
        raise _damaged(str(file), "it is not JSON") from error
    return runs_of_baseline(document, str(file))


def runs_of_baseline(document: Any, source: str) -> list[Run]:
    """
    Return the runs of the document of a baseline.

    Args:
        document: Plain data, as :func:`baseline_document` returns it.
        source: Its origin, for messages.

    Raises:
        RecordingError: It is damaged, or a later release wrote it.
    """
    try:
        schema = document.get("schema")
    except AttributeError as error:
        raise _damaged(source, "it is not JSON") from error
    if schema != BASELINE_SCHEMA:
        raise RecordingError(
            f"{source} is not a baseline that this release reads: its schema is {schema!r}",
            hint=f"this release reads {BASELINE_SCHEMA}",
        )
    try:
        runs = [_read(source, each) for each in document["runs"]]
    except (*_DAMAGED, ConfigError) as error:
        # The hint of an inner error is about a file that a person writes.
        text = error.message if isinstance(error, LatspanError) else str(error)
        raise _damaged(source, f"{type(error).__name__}: {text}") from error
    if not runs:
        raise _damaged(source, "it has no run")
    return runs


def _damaged(source: str, reason: str) -> RecordingError:
    return RecordingError(
        f"{source} is not a baseline: {reason}",
        hint="write it again with: latspan compare --save-baseline FILE RECORDING",
    )


def _read(source: str, written: Mapping[str, Any]) -> Run:
    samples = {str(name): _read_sample(each) for name, each in written["histograms"].items()}
    units = _whole(written["units"])
    return Run(
        name=f"{source}: {_text(written['name'])}",
        form=RunForm.BASELINE,
        recording=str(written.get("recording", "")),
        kind=Kind(written["kind"]),
        units=units,
        failed=_whole(written["failed"], maximum=units),
        cut=_whole(written.get("cut", 0), maximum=units),
        start_ns=_whole(written.get("start_ns", 0)),
        effective=_number(written["effective"]) if "effective" in written else None,
        origin=RunForm(written["origin"]) if "origin" in written else None,
        divides_last_call=written.get("divides_last_call") is True,
        notes=tuple(map(_text, written.get("notes", ()))),
        samples=samples,
        profile=_profile(written["profile"]),
        strata=tuple(map(_read_stratum, written.get("mix", ()))),
        conditions=_mapping(written["conditions"]),
        targets=tuple(
            Target(
                metric=_text(each["metric"]),
                percentile=_number(each["percentile"]),
                limit_ns=_whole(each["limit_ns"]),
            )
            for each in written["targets"]
        ),
        bands={
            str(name): Band(
                _number(band["mean_ns"]),
                {str(each): _number(ns) for each, ns in band["segments_ns"].items()},
                _whole(band["requests"]),
                _number(band["fraction"]) if "fraction" in band else None,
            )
            for name, band in written["bands"].items()
        },
    )


def _read_stratum(written: Mapping[str, Any]) -> Stratum:
    streamed = written.get("streamed")
    if not isinstance(streamed, bool | None):
        raise TypeError(f"{printable(str(streamed))} is neither true nor false")
    attributes = {name: _text(value) for name, value in _mapping(written["attributes"]).items()}
    requests = _number(written["requests"])
    if not requests:
        raise ValueError("a kind of requests has none of them")
    return Stratum(attributes, streamed, requests)


def _read_sample(written: Mapping[str, Any]) -> WeightedSample:
    low = sample_of_histogram(decode(written["counts"]).histogram, _whole(written["failed"]))
    if "upper" not in written:
        return low
    upper = written["upper"]
    high = sample_of_histogram(decode(upper["counts"]).histogram, _whole(upper["failed"]))
    return replace(low, upper=high)


def _profile(written: Mapping[str, Any]) -> Profile:
    read: dict[str, Any] = {}
    for name, value in written.items():
        if name == "models":
            read[name] = tuple(_text(each) for each in value)
        else:
            read[name] = _mapping(value) if name == "load" else _number(value)
    return Profile(**read)


def _whole(value: object, maximum: int = _MAX_NUMBER) -> int:
    if type(value) is not int or not 0 <= value <= maximum:
        raise ValueError(f"{printable(str(value))} is not a number from 0 to {maximum}")
    return value


def _number(value: object) -> float:
    # NaN, which Python's parser accepts, is in no range.
    if type(value) not in {int, float} or not 0 <= cast("float", value) <= _MAX_NUMBER:
        raise ValueError(f"{printable(str(value))} is not a number from 0 to {_MAX_NUMBER}")
    return float(cast("float", value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{printable(str(value))} is not a text")
    return printable(value)


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{printable(str(value))} is not an object")
    # A document without an infinity can be written again as JSON.
    json.dumps(value, allow_nan=False)
    return dict(cast("dict[str, Any]", value))
