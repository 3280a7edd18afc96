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
from typing import Any, Final, cast

import numpy as np

from latspan._base.shown import printable
from latspan._model.goals import Target
from latspan._model.segments import Kind
from latspan._study.compare._mix import stored_strata
from latspan._study.compare._run import SEGMENT, Band, Profile, Run, RunForm, Stratum
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


def baseline_document(runs: Sequence[Run]) -> dict[str, object]:
    """Return the baseline of some runs as plain data, ready for ``json.dumps``."""
    return {
        "schema": BASELINE_SCHEMA,
        "latspan": __version__,
        "runs": [_written(run) for run in runs],
    }


def _written(run: Run) -> dict[str, object]:
    metrics = [name for name in run.samples if not name.startswith(SEGMENT)]
    bands = {
        f"p{percentile:g} {metric}": run.band(metric, percentile)
        for metric in (run.tables or metrics)
        for percentile in _PERCENTILES
    }
    return {
        # A run that was itself read from a baseline has the name of that file before its own.
        "name": Path(
            run.name.rpartition(": ")[2] if run.form is RunForm.BASELINE else run.name
        ).name,
        **({"recording": run.recording} if run.recording else {}),
        "kind": run.kind.value,
        "units": run.units,
        "failed": run.failed,
        **({"cut": run.cut} if run.cut else {}),
        **({"start_ns": run.start_ns} if run.start_ns else {}),
        **({"effective": run.size} if run.size < run.units else {}),
        **({"origin": RunForm.HISTOGRAMS.value} if run.has_histograms_only else {}),
        **({"notes": list(run.notes)} if run.notes else {}),
        "conditions": dict(run.conditions),
        "profile": {
            name: value
            for name, value in asdict(run.profile).items()
            if value is not None and value != ()
        },
        **_written_strata(stored_strata(run)),
        "targets": [
            {"metric": each.metric, "percentile": each.percentile, "limit_ns": each.limit_ns}
            for each in run.targets
        ],
        "bands": {
            name: {
                "mean_ns": round(band.value_ns),
                "requests": band.size,
                **({} if band.fraction is None else {"fraction": band.fraction}),
                "segments_ns": {each: round(ns) for each, ns in band.segments_ns.items()},
            }
            for name, band in bands.items()
            if band is not None
        },
        "histograms": {
            name: {
                **_written_sample(sample),
                **({} if sample.upper is None else {"upper": _written_sample(sample.upper)}),
            }
            for name, sample in run.samples.items()
        },
    }


def _written_strata(strata: Sequence[Stratum]) -> dict[str, object]:
    """Return the mix; nothing if it is unknown, or has so many kinds that it is no mix."""
    if not 0 < len(strata) <= _MAX_STRATA:
        return {}
    return {
        "mix": [
            {
                "attributes": dict(each.attributes),
                **({} if each.streamed is None else {"streamed": each.streamed}),
                "requests": each.requests,
            }
            for each in strata
        ]
    }


def _written_sample(sample: WeightedSample) -> dict[str, object]:
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
        failed=_whole(written["failed"], most=units),
        cut=_whole(written.get("cut", 0), most=units),
        start_ns=_whole(written.get("start_ns", 0)),
        effective=_number(written["effective"]) if "effective" in written else None,
        origin=RunForm(written["origin"]) if "origin" in written else None,
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


def _whole(value: object, most: int = _MAX_NUMBER) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{printable(str(value))} is not a number from 0 to {most}")
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
