"""
A diagnosis as JSON, schema ``latspan.diagnosis/1``, and as Markdown.

Times are seconds. ``value_s`` is ``null`` if the percentile falls on a failed
request, or is not known because requests were given up: then ``at_least_s`` is its lower end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from latspan._base.nanoseconds import to_seconds
from latspan._base.shown import printable
from latspan._model.text import percent
from latspan._model.units import milliseconds
from latspan._study.diagnose import Conclusion, Diagnosis

DIAGNOSIS_SCHEMA: Final = "latspan.diagnosis/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

_MAX_TEXT_LENGTH: Final = 10_000
"""Maximum number of characters of a text in Markdown."""


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, object]:
    """Return a diagnosis and those of its groups as plain data, ready for ``json.dumps``."""
    return {
        "schema": DIAGNOSIS_SCHEMA,
        **_one(diagnosis),
        "groups": [
            {"attribute": each.group[0], "value": each.group[1], **_one(each)}
            for each in diagnosis.groups
            if each.group is not None
        ],
    }


def _one(diagnosis: Diagnosis) -> dict[str, object]:
    goal, finding = diagnosis.goal, diagnosis.finding
    value = diagnosis.value_ns
    return {
        "conclusion": diagnosis.conclusion.value,
        "sentence": diagnosis.sentence,
        "goal": {
            "metric": goal.metric,
            "percentile": goal.percentile,
            "limit_s": None if goal.limit_ns is None else to_seconds(goal.limit_ns),
            "value_s": to_seconds(value.low) if value is not None and value.is_known else None,
            **(
                {"at_least_s": to_seconds(value.low)}
                if value is not None and not value.is_known and math.isfinite(value.low)
                else {}
            ),
            "verdict": None if diagnosis.target is None else diagnosis.target.verdict.value,
        },
        "kind": diagnosis.kind.value,
        "units": diagnosis.units,
        "failed": diagnosis.failed,
        "shares": [
            {
                "segment": share.name,
                "share": share.share,
                "low": share.low,
                "high": share.high,
                "slow_s": to_seconds(share.mean_ns),
                "typical_s": to_seconds(share.typical_ns),
                "estimated": share.uncertain,
            }
            for share in diagnosis.shares
        ],
        "cause": None
        if finding is None
        else {
            "name": finding.cause,
            "summary": finding.summary,
            "evidence": list(finding.evidence),
            "lever": finding.lever,
            "refuted_by": finding.refuted_by,
            "segments": [str(segment) for segment in finding.segments],
        },
        "budget": [
            {
                "component": row.component,
                "actual_s": to_seconds(row.actual_ns),
                "limit_s": None if row.limit_ns is None else to_seconds(row.limit_ns),
                "over_s": max(to_seconds(row.overrun_ns), 0.0),
            }
            for row in diagnosis.budget
        ],
        "notes": list(diagnosis.remarks),
    }


def diagnosis_markdown(diagnosis: Diagnosis) -> str:
    """Return a diagnosis and its groups as Markdown, for a ticket or the summary of a CI step."""
    lines = [line for each in (diagnosis, *diagnosis.groups) for line in _lines(each)]
    return "\n".join(lines) + "\n"


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    group = "" if diagnosis.group is None else f" of {escaped(' '.join(diagnosis.group))}"
    yield f"### Diagnosis of {diagnosis.goal}{group}"
    yield ""
    yield f"**{escaped(diagnosis.sentence)}**"
    yield ""
    finding = diagnosis.finding
    if finding is not None and diagnosis.conclusion is not Conclusion.SPREAD_OUT:
        for sentence in finding.evidence:
            yield f"- {escaped(sentence)}"
        yield ""
        yield f"Try: {escaped(finding.lever)}. Refuted if {escaped(finding.refuted_by)}."
        yield ""
    if diagnosis.shares:
        yield "| segment | slow | typical | share | 90 % interval |"
        yield "|---|---:|---:|---:|---|"
        for share in diagnosis.shares:
            yield (
                f"| {escaped(share.name)} | {milliseconds(share.mean_ns)} |"
                f" {milliseconds(share.typical_ns)} | {percent(share.share)} |"
                f" {percent(share.low)} to {percent(share.high)} |"
            )
        yield ""
    for note in diagnosis.remarks:
        yield f"_{escaped(note)}_"
        yield ""


def escaped(text: str) -> str:
    """Return a text on one line, without characters that Markdown or a terminal interprets."""
    text = printable(text, longest=_MAX_TEXT_LENGTH)
    for character in "\\`*_[]|<>":
        text = text.replace(character, f"\\{character}")
    return text
