"""
JSON document of ``latspan sweep --json``, schema ``latspan.sweep/1``.

Times are seconds. The document that is kept in ``results/NAME`` has one path. Instead of the
comparisons it has the runs, as a document of ``latspan.baseline/1``, so that the next sweep can be
compared without the recordings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypedDict

from latspan._base.nanoseconds import to_seconds
from latspan._study.compare import BaselineDocument, Judgement, Run, baseline_document
from latspan._study.fields import Count, Date, Limits, Percentile, Seconds
from latspan._study.render.comparison_json import ComparisonDocument, comparison_document
from latspan._study.render.sweep import inputs_of
from latspan._study.stats import Verdict
from latspan._study.sweep import Against, PathSweep, SweepAnswer, SweptTarget

SWEEP_SCHEMA: Final = "latspan.sweep/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


class SweepGoal(TypedDict):
    """The percentile that is compared."""

    metric: str
    percentile: Percentile


class SweepTarget(TypedDict):
    """A target, and what all runs of the sweep prove about it."""

    metric: str
    percentile: Percentile
    limit_s: Annotated[float, Limits(above=0)]
    verdict: Verdict | None
    requests: Annotated[Count | None, "Requests of all valid runs"]
    misses: Count | None
    needed: Count | None


class SweepInputs(TypedDict):
    """What the requests of some runs were like."""

    models: list[str]
    input_tokens: Annotated[float | None, "Mean per request"]
    output_tokens: Annotated[float | None, "Mean per completed request"]
    cached: Annotated[float | None, "Cached fraction of the input"]


class ChangedInput(TypedDict):
    """An input that differs from that of the earlier state."""

    name: str
    before: str
    after: str


class EarlierState(TypedDict):
    """Comparison with an earlier state."""

    date: Annotated[Date | None, "Date of the previous sweep"]
    judgement: Judgement
    sentence: str
    inputs: SweepInputs
    inputs_changed: list[ChangedInput]
    comparison: Annotated[
        ComparisonDocument | None,
        "Document of latspan.comparison/1; null in a kept result, or without a common metric",
    ]


class SweptPath(TypedDict):
    """One inference path."""

    name: Annotated[str, "Name of the file without .toml"]
    requests_in_traffic: Annotated[Count | None, "null without --traffic"]
    finding: SweepAnswer
    sentence: str
    goal: Annotated[
        SweepGoal | None,
        "Percentile that is compared: the first target; null without a valid run",
    ]
    value_s: Annotated[
        Seconds | None,
        "Mean of this percentile over the runs; null if it is unknown or falls on failed requests",
    ]
    valid_runs: Count
    invalid_runs: Annotated[list[str], "Why the other runs do not count"]
    seconds_per_run: Seconds | None
    targets: list[SweepTarget]
    inputs: SweepInputs
    baseline: Annotated[EarlierState | None, "null if no baseline is pinned"]
    previous: Annotated[EarlierState | None, "null in the first sweep"]
    runs: Annotated[
        BaselineDocument | None,
        "In a kept result, the runs as a document of latspan.baseline/1; otherwise null",
    ]


class SweepError(TypedDict):
    """Why an inference path was not measured or not judged."""

    name: str
    error: str


class SweepDocument(TypedDict):
    """What drifted in the inference paths of a folder: latspan sweep --json."""

    schema: Literal["latspan.sweep/1"]
    interrupted: Annotated[bool, "Whether Ctrl-C ended the sweep"]
    paths: list[SweptPath]
    errors: Annotated[list[SweepError], "Inference paths that were not measured or not judged"]
    notes: list[str]


def sweep_document(
    paths: Sequence[PathSweep],
    *,
    errors: Mapping[str, str],
    notes: Sequence[str],
    traffic: Mapping[str, int] | None,
    interrupted: bool,
) -> SweepDocument:
    """
    Return a sweep as plain data, ready for ``json.dumps``.

    Args:
        paths: Its inference paths.
        errors: Why other paths were not measured, by their name.
        notes: What a reader must know, one sentence each.
        traffic: Requests by the name of the path, if paths were ranked by them.
        interrupted: Whether it was ended early.
    """
    return {
        "schema": SWEEP_SCHEMA,
        "interrupted": interrupted,
        "paths": [_path(each, traffic) for each in paths],
        "errors": [{"name": name, "error": reason} for name, reason in errors.items()],
        "notes": list(notes),
    }


def kept_document(path: PathSweep, *, interrupted: bool) -> SweepDocument:
    """
    Return the document of one inference path that is kept, with its runs.

    Args:
        path: The inference path.
        interrupted: Whether the sweep was ended early.
    """
    document = sweep_document([path], errors={}, notes=(), traffic=None, interrupted=interrupted)
    kept = _path(path, None)
    for name in ("baseline", "previous"):
        against = kept[name]
        if against is not None:
            kept[name] = {**against, "comparison": None}
    kept["runs"] = baseline_document(path.runs) if path.runs else None
    return {**document, "paths": [kept]}


def _path(found: PathSweep, traffic: Mapping[str, int] | None) -> SweptPath:
    goal = found.goal
    return {
        "name": found.name,
        "requests_in_traffic": None if traffic is None else traffic.get(found.name, 0),
        "finding": found.finding,
        "sentence": found.sentence,
        "goal": None if goal is None else {"metric": goal.metric, "percentile": goal.percentile},
        "value_s": _seconds(found.value_ns),
        "valid_runs": len(found.runs),
        "invalid_runs": list(found.invalid),
        "seconds_per_run": found.seconds_per_run,
        "targets": [_target(each) for each in found.targets],
        "inputs": _inputs(found.runs),
        "baseline": None if found.baseline is None else _against(found.baseline),
        "previous": None if found.previous is None else _against(found.previous),
        "runs": None,
    }


def _seconds(value_ns: float | None) -> float | None:
    return None if value_ns is None or not math.isfinite(value_ns) else to_seconds(value_ns)


def _target(found: SweptTarget) -> SweepTarget:
    target, verdict = found.target, found.verdict
    return {
        "metric": target.metric,
        "percentile": target.percentile,
        "limit_s": to_seconds(target.limit_ns),
        "verdict": None if verdict is None else verdict.verdict,
        "requests": None if verdict is None else verdict.requests,
        "misses": None if verdict is None else verdict.misses,
        "needed": None if verdict is None else verdict.needed,
    }


def _inputs(runs: Sequence[Run]) -> SweepInputs:
    inputs = inputs_of(runs)
    return {
        "models": list(inputs.models),
        "input_tokens": inputs.input_tokens,
        "output_tokens": inputs.output_tokens,
        "cached": inputs.cached,
    }


def _against(found: Against) -> EarlierState:
    return {
        "date": None if found.since is None else f"{found.since:%Y-%m-%d}",
        "judgement": found.judgement,
        "sentence": found.sentence,
        "inputs": _inputs(found.runs),
        "inputs_changed": [
            {"name": each.name, "before": each.before, "after": each.after} for each in found.inputs
        ],
        "comparison": None if found.comparison is None else comparison_document(found.comparison),
    }
