"""
JSON document of ``latspan sweep --json``, schema ``latspan.sweep/1``.

Times are seconds. The document that is kept in ``results/NAME`` has one path. Instead of the
comparisons it has the runs, as a document of ``latspan.baseline/1``, so that the next sweep can be
compared without the recordings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from latspan._base.nanoseconds import to_seconds
from latspan._study.compare import Run, baseline_document
from latspan._study.render.comparison_json import comparison_document
from latspan._study.render.sweep import inputs_of
from latspan._study.sweep import SWEEP_SCHEMA, Against, PathSweep, SweptTarget


def sweep_document(
    paths: Sequence[PathSweep],
    *,
    errors: Mapping[str, str],
    notes: Sequence[str],
    traffic: Mapping[str, int] | None,
    interrupted: bool,
) -> dict[str, object]:
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


def kept_document(path: PathSweep, *, interrupted: bool) -> dict[str, object]:
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
        if isinstance(against, dict):
            kept[name] = {**against, "comparison": None}
    kept["runs"] = baseline_document(path.runs) if path.runs else None
    return {**document, "paths": [kept]}


def _path(found: PathSweep, traffic: Mapping[str, int] | None) -> dict[str, object]:
    goal = found.goal
    return {
        "name": found.name,
        "requests_in_traffic": None if traffic is None else traffic.get(found.name, 0),
        "finding": found.finding.value,
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


def _target(found: SweptTarget) -> dict[str, object]:
    target, verdict = found.target, found.verdict
    return {
        "metric": target.metric,
        "percentile": target.percentile,
        "limit_s": to_seconds(target.limit_ns),
        "verdict": None if verdict is None else verdict.verdict.value,
        "requests": None if verdict is None else verdict.requests,
        "misses": None if verdict is None else verdict.misses,
        "needed": None if verdict is None else verdict.needed,
    }


def _inputs(runs: Sequence[Run]) -> dict[str, object]:
    inputs = asdict(inputs_of(runs))
    return {**inputs, "models": list(inputs["models"])}


def _against(found: Against) -> dict[str, object]:
    return {
        "date": None if found.since is None else f"{found.since:%Y-%m-%d}",
        "judgement": found.judgement.value,
        "sentence": found.sentence,
        "inputs": _inputs(found.runs),
        "inputs_changed": [
            {"name": each.name, "before": each.before, "after": each.after} for each in found.inputs
        ],
        "comparison": None if found.comparison is None else comparison_document(found.comparison),
    }
