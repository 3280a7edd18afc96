"""
A diagnosis as JSON, schema ``latspan.diagnosis/1``, and as Markdown.

Times are seconds. ``value_s`` is ``null`` if the percentile falls on a failed
request, or is not known because requests were given up: then ``at_least_s`` is its lower end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Final, Literal, NotRequired, TypedDict

from latspan._base.nanoseconds import to_seconds
from latspan._model.segments import Kind
from latspan._model.text import percent
from latspan._model.units import milliseconds
from latspan._study.diagnose import Cause, Conclusion, Diagnosis
from latspan._study.fields import Count, Percentile, Seconds
from latspan._study.render.markdown import escaped
from latspan._study.stats import Verdict

DIAGNOSIS_SCHEMA: Final = "latspan.diagnosis/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


class DiagnosedGoal(TypedDict):
    """The goal, and the value of its percentile."""

    metric: str
    percentile: Percentile
    limit_s: Seconds | None
    value_s: Annotated[Seconds | None, "null if it is unknown or falls on failed requests"]
    at_least_s: NotRequired[
        Annotated[Seconds, "Lower end, if requests that were given up leave the value open"]
    ]
    verdict: Annotated[Verdict | None, "null without a limit"]


class SegmentShare(TypedDict):
    """A segment of the requests near the percentile."""

    segment: str
    share: Annotated[float, "Fraction of their time"]
    low: Annotated[float, "Lower end of its 90 % interval"]
    high: Annotated[float, "Upper end of its 90 % interval"]
    slow_s: Annotated[Seconds, "Mean time in requests near the percentile"]
    typical_s: Annotated[Seconds, "Mean time in requests near the median"]
    estimated: Annotated[float, "Fraction of the segment that is estimated or unknown"]


class NamedCause(TypedDict):
    """Cause of the delay, and the one change to try."""

    name: Cause
    summary: str
    evidence: list[str]
    lever: Annotated[str, "The one change to try"]
    refuted_by: Annotated[str, "What would show that it is another cause"]
    segments: list[str]


class BudgetComponent(TypedDict):
    """A component of the latency budget."""

    component: str
    actual_s: Seconds
    limit_s: Seconds | None
    over_s: Seconds


class DiagnosedUnits(TypedDict):
    """What is found for all requests or calls, or for a group of them."""

    conclusion: Conclusion
    sentence: str
    goal: DiagnosedGoal
    kind: Annotated[Kind, "What is counted"]
    units: Annotated[Count, "Number of requests or calls, failed ones included"]
    failed: Count
    shares: Annotated[list[SegmentShare], "The largest share first"]
    cause: Annotated[NamedCause | None, "null if no cause is named"]
    step: Annotated[
        str | None,
        "Step in which most of the leading segment is, as 'step 3 (chat m)'; null if it is in"
        " several, or if no request has several calls",
    ]
    budget: Annotated[list[BudgetComponent], "The largest overrun first"]
    notes: list[str]


class DiagnosedGroup(DiagnosedUnits):
    """Diagnosis of the requests with one value of an attribute."""

    attribute: str
    value: str


class DiagnosisDocument(DiagnosedUnits):
    """The one delay to fix: latspan diagnose --json."""

    schema: Literal["latspan.diagnosis/1"]
    groups: Annotated[
        list[DiagnosedGroup],
        "One per value of the attribute of --by, the value with the most requests first",
    ]


def diagnosis_document(diagnosis: Diagnosis) -> DiagnosisDocument:
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


def _one(diagnosis: Diagnosis) -> DiagnosedUnits:
    finding = diagnosis.finding
    return {
        "conclusion": diagnosis.conclusion,
        "sentence": diagnosis.sentence,
        "goal": _goal(diagnosis),
        "kind": diagnosis.kind,
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
        "step": diagnosis.step,
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


def _goal(diagnosis: Diagnosis) -> DiagnosedGoal:
    goal, value = diagnosis.goal, diagnosis.value_ns
    document: DiagnosedGoal = {
        "metric": goal.metric,
        "percentile": goal.percentile,
        "limit_s": None if goal.limit_ns is None else to_seconds(goal.limit_ns),
        "value_s": to_seconds(value.low) if value is not None and value.is_known else None,
        "verdict": None if diagnosis.target is None else diagnosis.target.verdict,
    }
    if value is not None and not value.is_known and math.isfinite(value.low):
        document["at_least_s"] = to_seconds(value.low)
    return document


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
