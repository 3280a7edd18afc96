"""
A comparison as JSON, schema ``latspan.comparison/1``, as Markdown and as JUnit XML.

Times are seconds. A percentile is ``null`` if it falls on failed requests or has too few values. In
JUnit, each percentile is a test case: it fails if it is worse, and is skipped if it is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, NotRequired, TypedDict
from xml.etree import ElementTree as ET

from latspan._base.nanoseconds import to_seconds
from latspan._base.shown import printable
from latspan._model.segments import Kind
from latspan._model.text import difference, in_words
from latspan._model.units import milliseconds
from latspan._study.compare import (
    SEGMENT,
    Comparison,
    Explanation,
    Judgement,
    PercentileChange,
    PercentileRow,
    Weight,
)
from latspan._study.fields import Count, Fraction, Items, Limits, Percentile, Seconds
from latspan._study.render.comparison import change_of, ends_of, interval_of
from latspan._study.render.markdown import escaped
from latspan._study.stats import Verdict

COMPARISON_SCHEMA: Final = "latspan.comparison/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


class ComparisonGoal(TypedDict):
    """The percentile that is compared."""

    metric: str
    percentile: Percentile
    margin: Annotated[float, "Ratio up to which it is no worse"]
    limit_s: Seconds | None


class ComparedSide(TypedDict):
    """Runs of one side."""

    runs: Annotated[int, Limits(minimum=1)]
    units: Annotated[Count, "Requests or calls, failed ones included"]
    failed: Annotated[Fraction, "Fraction of the units"]
    cut: Annotated[Fraction, "Fraction of the units that were given up"]


class ConditionDifference(TypedDict):
    """A condition in which the sides differ."""

    name: Annotated[str, "Name for --changed"]
    before: str
    after: str
    explains: Annotated[bool, "Whether it can explain a change by itself"]
    accepted: Annotated[bool, "Whether it is the change that was made"]


class _LowerEnds(TypedDict):
    before_at_least_s: NotRequired[
        Annotated[Seconds, "Lower end, if requests that were given up leave the percentile open"]
    ]
    after_at_least_s: NotRequired[Seconds]


class ComparedPercentile(_LowerEnds):
    """A percentile of a metric or of a segment, before and after."""

    metric: Annotated[str, "segment for a segment"]
    segment: str | None
    percentile: Percentile
    before_s: Annotated[Seconds | None, "Geometric mean over the runs"]
    after_s: Seconds | None
    ratio: float | None
    low: Annotated[float | None, "Lower end of the 95 % interval of the ratio"]
    high: float | None
    margin: float
    change: PercentileChange
    values: Annotated[list[Count], Items(minimum=2, maximum=2), "Number of values of each side"]
    runs_s: Annotated[
        list[list[Seconds | None]],
        Items(minimum=2, maximum=2),
        "Percentile of each run of each side",
    ]


class RequestMix(TypedDict):
    """Fraction of each kind of requests, by route, model and other attributes."""

    before: dict[str, Fraction]
    after: dict[str, Fraction]
    changed: Annotated[bool, "Whether it changed by more than chance and tolerance"]


class ComparedSegment(TypedDict):
    """Mean time of the slow requests in a segment."""

    segment: str
    before_s: Seconds
    after_s: Seconds
    low_s: Annotated[float | None, "95 % interval of the difference"]
    high_s: float | None
    real: Annotated[bool, "Whether it is more than chance"]


class ChangeExplanation(TypedDict):
    """Division of a change among segments."""

    before_s: Annotated[Seconds, "Mean time of the slow requests"]
    after_s: Seconds
    leading: Annotated[str | None, "Segment that explains the change"]
    segments: list[ComparedSegment]


class ComparedTarget(TypedDict):
    """Verdict on the limit after the change."""

    verdict: Verdict
    requests: Count
    misses: Count
    needed: Annotated[Count, "Further requests without a miss"]
    met_in_runs: Count


class ComparedUnits(TypedDict):
    """Comparison of all requests or calls, or of a group of them."""

    judgement: Judgement
    sentence: str
    makes_claim: Annotated[bool, "Whether there are enough runs for a claim"]
    attributable: Annotated[bool, "Whether at most one thing was changed"]
    goal: ComparisonGoal
    kind: Kind
    before: ComparedSide
    after: ComparedSide
    differences: Annotated[
        list[ConditionDifference], "Conditions that differ, those that explain a change first"
    ]
    rows: Annotated[
        list[ComparedPercentile],
        Items(minimum=1),
        "Percentiles; the goal is the first, the others are guards",
    ]
    more_failures: Annotated[bool, "Whether significantly more requests fail after"]
    more_cut: Annotated[bool, "Whether significantly more requests are given up after"]
    mix: Annotated[RequestMix | None, "null if it is unknown"]
    explanation: Annotated[
        ChangeExplanation | None,
        "Division of the change among segments; null if they are unknown",
    ]
    target: Annotated[
        ComparedTarget | None, "Verdict on the limit after the change; null without a limit"
    ]
    runs_needed: Annotated[int | None, "Runs per side that would probably decide"]
    exact_p: Annotated[float | None, "P-value of the exact permutation of the runs"]
    notes: list[str]


class ComparedGroup(ComparedUnits):
    """Comparison of the requests with one value of an attribute."""

    attribute: str
    value: str


class ComparisonDocument(ComparedUnits):
    """
    Whether requests became faster, or it is chance: latspan compare --json.

    Times are seconds. A time is null if it falls on failed requests or if there are too few values.
    """

    schema: Literal["latspan.comparison/1"]
    groups: Annotated[list[ComparedGroup], "One comparison per value of the attribute of --by"]


def comparison_document(
    comparison: Comparison, groups: Sequence[Comparison] = ()
) -> ComparisonDocument:
    """
    Return a comparison as plain data, ready for ``json.dumps``.

    Args:
        comparison: Comparison of all requests.
        groups: Comparisons of groups of them.
    """
    return {
        "schema": COMPARISON_SCHEMA,
        **_one(comparison),
        "groups": [
            {"attribute": each.group[0], "value": each.group[1], **_one(each)}
            for each in groups
            if each.group is not None
        ],
    }


def _one(found: Comparison) -> ComparedUnits:
    asked, target = found.question, found.target
    return {
        "judgement": found.judgement,
        "sentence": found.sentence,
        "makes_claim": found.makes_claim,
        "attributable": found.is_attributable,
        "goal": {
            "metric": asked.metric,
            "percentile": asked.percentile,
            "margin": found.goal.margin,
            "limit_s": None if asked.limit_ns is None else to_seconds(asked.limit_ns),
        },
        "kind": found.kind,
        "before": {
            "runs": found.runs[0],
            "units": found.units[0],
            "failed": found.failures.before,
            "cut": found.failures.cut_before,
        },
        "after": {
            "runs": found.runs[1],
            "units": found.units[1],
            "failed": found.failures.after,
            "cut": found.failures.cut_after,
        },
        "differences": [
            {
                "name": each.name,
                "before": each.before,
                "after": each.after,
                "explains": each.weight is Weight.EXPLAINS,
                "accepted": each.accepted,
            }
            for each in found.differences
        ],
        "rows": [_row(row) for row in found.rows],
        "more_failures": found.failures.more,
        "more_cut": found.failures.more_cut,
        "mix": None
        if found.mix is None
        else {
            "before": dict(found.mix.before),
            "after": dict(found.mix.after),
            "changed": found.mix.changed,
        },
        "explanation": None if found.explanation is None else _explanation(found.explanation),
        "target": None
        if target is None
        else {
            "verdict": target.verdict,
            "requests": target.requests,
            "misses": target.misses,
            "needed": target.needed,
            "met_in_runs": found.met_in,
        },
        "runs_needed": found.needed,
        "exact_p": found.exact_p,
        "notes": list(found.notes),
    }


def _row(row: PercentileRow) -> ComparedPercentile:
    high_ns = row.high_ns or (row.before_ns, row.after_ns)
    return {
        "metric": "segment" if row.is_segment else row.name,
        "segment": row.name.removeprefix(SEGMENT) if row.is_segment else None,
        "percentile": row.percentile,
        "before_s": _known(row.before_ns, high_ns[0]),
        "after_s": _known(row.after_ns, high_ns[1]),
        **_lower_ends(row, high_ns),
        "ratio": row.ratio,
        "low": row.low,
        "high": None if row.high is None or math.isinf(row.high) else row.high,
        "margin": row.margin,
        "change": row.change,
        "values": list(row.counts),
        "runs_s": [[_seconds(each) for each in side] for side in row.single],
    }


def _known(low_ns: float, high_ns: float) -> float | None:
    """Return a percentile; ``None`` if requests that were given up leave it open."""
    return _seconds(low_ns) if low_ns == high_ns else None


def _lower_ends(row: PercentileRow, high_ns: tuple[float, float]) -> _LowerEnds:
    ends: _LowerEnds = {}
    if row.before_ns < high_ns[0]:
        ends["before_at_least_s"] = to_seconds(row.before_ns)
    if row.after_ns < high_ns[1]:
        ends["after_at_least_s"] = to_seconds(row.after_ns)
    return ends


def _seconds(value_ns: float) -> float | None:
    return to_seconds(value_ns) if math.isfinite(value_ns) else None


def _explanation(explanation: Explanation) -> ChangeExplanation:
    return {
        "before_s": to_seconds(explanation.before_ns),
        "after_s": to_seconds(explanation.after_ns),
        "leading": None if explanation.leading is None else explanation.leading.name,
        "segments": [
            {
                "segment": each.name,
                "before_s": to_seconds(each.before_ns),
                "after_s": to_seconds(each.after_ns),
                "low_s": None if each.low_ns is None else to_seconds(each.low_ns),
                "high_s": None if each.high_ns is None else to_seconds(each.high_ns),
                "real": each.is_real,
            }
            for each in explanation.segments
        ],
    }


def comparison_markdown(comparison: Comparison, groups: Sequence[Comparison] = ()) -> str:
    """
    Return a comparison as Markdown, for a pull request or the summary of a CI step.

    Args:
        comparison: Comparison of all requests.
        groups: Comparisons of groups of them.
    """
    lines = [line for each in (comparison, *groups) for line in _lines(each)]
    return "\n".join(lines) + "\n"


def _lines(found: Comparison) -> Iterator[str]:
    group = "" if found.group is None else f", {escaped(' '.join(found.group))}"
    yield f"### {found.question}{group}: {in_words(found.judgement)}"
    yield ""
    yield f"**{escaped(found.sentence)}**"
    yield ""
    for each in found.differences:
        word = "changed" if each.accepted else "differs"
        yield f"- {word}: {escaped(str(each))}"
    if found.differences:
        yield ""
    yield f"| {found.runs[0]} and {found.runs[1]} runs | | before | after | change | 95 % | |"
    yield "|---|---|---:|---:|---:|---|---|"
    for row in found.rows:
        if row.change is not PercentileChange.TOO_FEW:
            yield (
                f"| {escaped(row.name.removeprefix(SEGMENT))} | p{row.percentile:g} |"
                f" {ends_of(row)[0]} | {ends_of(row)[1]} | {change_of(row)} |"
                f" {interval_of(row)} | {in_words(row.change)} |"
            )
    yield ""
    if found.explanation is not None:
        yield "| segment, mean of slow requests | before | after | difference | |"
        yield "|---|---:|---:|---:|---|"
        for each in found.explanation.segments:
            yield (
                f"| {escaped(each.name)} | {milliseconds(each.before_ns)} |"
                f" {milliseconds(each.after_ns)} | {difference(each.difference_ns)} |"
                f" {'significant' if each.is_real else 'could be chance'} |"
            )
        yield ""
    for note in found.notes:
        yield f"_{escaped(note)}_"
        yield ""


def comparison_junit(comparison: Comparison, groups: Sequence[Comparison] = ()) -> str:
    """
    Return a comparison as JUnit XML, which CI systems show as test results.

    Args:
        comparison: Comparison of all requests.
        groups: Comparisons of groups of them.
    """
    root = ET.Element("testsuites", name="latspan compare")
    for found in (comparison, *groups):
        name = "latspan" if found.group is None else f"latspan {' '.join(found.group)}"
        suite = ET.SubElement(root, "testsuite", name=_xml(name))
        cases = list(_cases(found))
        for case, problem, text in cases:
            element = ET.SubElement(
                suite, "testcase", classname=_xml(name), name=_xml(case), time="0"
            )
            if problem:
                ET.SubElement(element, problem, message=_xml(text))
        for attribute, problem in (("failures", "failure"), ("skipped", "skipped")):
            suite.set(attribute, str(sum(each[1] == problem for each in cases)))
        suite.set("tests", str(len(cases)))
        suite.set("errors", str(sum(each[1] == "error" for each in cases)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _cases(found: Comparison) -> Iterator[tuple[str, str, str]]:
    """Yield name, problem (or nothing) and text of each test case."""
    problem = {
        Judgement.WORSE: "failure",
        Judgement.INCONCLUSIVE: "skipped",
        Judgement.NOT_INTERPRETABLE: "error",
    }.get(found.judgement, "")
    yield "conclusion", problem, found.sentence
    if found.target is not None:
        missed = found.target.verdict is Verdict.MISSED
        undecided = found.target.verdict is Verdict.UNDECIDED
        yield (
            f"target of {found.question}",
            "failure" if missed else "skipped" if undecided else "",
            f"{found.target}: {found.target.misses} of {found.target.requests} missed the limit",
        )
    for row in found.rows:
        interval = interval_of(row)
        text = (
            f"{ends_of(row)[0]} before, {ends_of(row)[1]} after,"
            f" {change_of(row)}{f' ({interval})' if interval else ''}: {in_words(row.change)}"
        )
        worse = row.change is PercentileChange.WORSE
        open_ = row.change in {
            PercentileChange.CHANCE,
            PercentileChange.DIFFERS,
            PercentileChange.TOO_FEW,
        }
        yield (
            f"p{row.percentile:g} {row.name}",
            "failure" if worse else "skipped" if open_ else "",
            text,
        )


def _xml(text: str) -> str:
    """Return a text without the control characters that XML cannot contain."""
    return printable(text, max_length=4_000)
