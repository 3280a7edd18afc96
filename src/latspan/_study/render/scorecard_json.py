"""
JSON document of ``latspan scorecard --json``.

Times are integer nanoseconds, ratios fractions in [0, 1]. A number is ``null`` if it is unknown or
has too few values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypedDict

from latspan._model.censoring import Bounds
from latspan._model.goals import Target
from latspan._model.segments import Kind, Outcome, Side
from latspan._study.fields import Count, Percentile
from latspan._study.scorecard import Card, Cycle, Figures, PeriodRow, Ratio, Scorecard
from latspan._study.stats import Verdict

SCORECARD_SCHEMA: Final = "latspan.scorecard/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


_PercentileName = Literal["p50", "p95"]


class ScorecardTarget(TypedDict):
    """A target that the requests of a card have."""

    metric: str
    percentile: Percentile
    limit_ns: int
    owner: str


class MetricFigures(TypedDict):
    """Percentiles of a metric in one period."""

    count: Count
    cut: Annotated[Count, "Requests that were given up before their value was known"]
    failed: Annotated[Count, "Requests that never had a value"]
    p50: Annotated[float | None, "Nanoseconds; null if unknown"]
    p95: Annotated[float | None, "Nanoseconds; null if unknown"]
    at_least: Annotated[
        dict[str, float],
        "Lower ends of percentiles that are not known, in nanoseconds, for example p95",
    ]
    unbounded: Annotated[list[_PercentileName], "Percentiles that fall on failed requests"]


class RequestRatio(TypedDict):
    """Requests that count, as a fraction of all."""

    count: Count
    of: Count
    ratio: float | None
    low: Annotated[float | None, "Lower end of the 95 % interval"]
    high: float | None
    undecided: Annotated[
        Count, "Further requests that may count or not, because their callers gave them up"
    ]
    most: Annotated[float | None, "The ratio if all of those count"]


class JudgedTarget(TypedDict):
    """Verdict on a target in one period."""

    metric: str
    percentile: Percentile
    verdict: Verdict
    requests: Count
    misses: Count
    needed: Count
    undecided: Count


class _PeriodFigures(TypedDict):
    requests: Annotated[Count, "Intended requests; estimated from Prometheus"]
    unsent: Count
    recorded_s: float | None
    outcomes: dict[str, Count]
    metrics: dict[str, MetricFigures]
    timeouts: RequestRatio
    completed: RequestRatio
    attainment: RequestRatio | None
    goodput_per_s: float | None
    most_goodput_per_s: Annotated[
        float | None, "Goodput if all requests that were given up before a limit meet it"
    ]
    verdicts: Annotated[list[JudgedTarget | None], "One per target; null if it cannot be judged"]


class ScorecardPeriod(_PeriodFigures):
    """Figures of one week or month."""

    cycle: Cycle
    label: str
    start_epoch_ns: int
    end_epoch_ns: int


class ScorecardCard(TypedDict):
    """Figures of the requests of one kind, on one side, with one value of the attribute."""

    group: Annotated[str | None, "Value of the attribute"]
    kind: Annotated[Kind, "What is counted"]
    side: Side
    targets: list[ScorecardTarget]
    periods: list[ScorecardPeriod]


class ScorecardDocument(TypedDict):
    """
    Latency and outcomes week by week: latspan scorecard --json.

    Times are integer nanoseconds and ratios are fractions. A field is null if it is unknown.
    """

    schema: Literal["latspan.scorecard/1"]
    by: Annotated[str, "Attribute by which requests are grouped"]
    notes: list[str]
    cards: list[ScorecardCard]


def scorecard_document(scorecard: Scorecard, notes: Sequence[str] = ()) -> ScorecardDocument:
    """
    Return a scorecard as plain data, ready for ``json.dumps``.

    Args:
        scorecard: The scorecard.
        notes: Further sentences for the reader.
    """
    return {
        "schema": SCORECARD_SCHEMA,
        "by": scorecard.by,
        "notes": list(notes),
        "cards": [_card(card) for card in scorecard.cards],
    }


def _card(card: Card) -> ScorecardCard:
    return {
        "group": card.group,
        "kind": card.kind,
        "side": card.side,
        "targets": [
            {
                "metric": each.metric,
                "percentile": each.percentile,
                "limit_ns": each.limit_ns,
                "owner": each.owner,
            }
            for each in card.targets
        ],
        "periods": [
            {
                "cycle": cycle,
                "label": row.period.label,
                "start_epoch_ns": row.period.start_ns,
                "end_epoch_ns": row.period.end_ns,
                **_figures(row, card.targets),
            }
            for cycle, rows in card.rows.items()
            for row in rows
        ],
    }


def _figures(row: PeriodRow, targets: Sequence[Target]) -> _PeriodFigures:
    figures: Figures = row.figures
    return {
        "requests": figures.requests,
        "unsent": figures.unsent,
        "recorded_s": figures.recorded_s,
        "outcomes": {each: number for each in Outcome if (number := figures.outcomes[each])},
        "metrics": {
            metric: _metric(figures, metric, values)
            for metric, values in figures.percentiles.items()
        },
        "timeouts": _ratio(figures.timeouts),
        "completed": _ratio(figures.completed),
        "attainment": None if figures.attainment is None else _ratio(figures.attainment),
        "goodput_per_s": figures.goodput_per_s,
        "most_goodput_per_s": figures.most_goodput_per_s,
        "verdicts": [
            None
            if verdict is None
            else {
                "metric": target.metric,
                "percentile": target.percentile,
                "verdict": verdict.verdict,
                "requests": verdict.requests,
                "misses": verdict.misses,
                "needed": verdict.needed,
                "undecided": verdict.undecided,
            }
            for target, verdict in zip(targets, figures.verdicts, strict=True)
        ],
    }


def _metric(figures: Figures, metric: str, values: Mapping[float, Bounds | None]) -> MetricFigures:
    counts = figures.counts[metric]
    known: dict[_PercentileName, Bounds | None] = {"p50": values[50], "p95": values[95]}
    return {
        "count": counts.count,
        "cut": counts.cut,
        "failed": counts.failed,
        "p50": _known(known["p50"]),
        "p95": _known(known["p95"]),
        "at_least": {
            name: each.low
            for name, each in known.items()
            if each is not None and math.isfinite(each.low) and not each.is_known
        },
        "unbounded": [
            name for name, each in known.items() if each is not None and math.isinf(each.low)
        ],
    }


def _known(value: Bounds | None) -> float | None:
    return None if value is None or not value.is_known else value.low


def _ratio(ratio: Ratio) -> RequestRatio:
    return {
        "count": ratio.count,
        "of": ratio.of,
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "undecided": ratio.undecided,
        "most": ratio.most,
    }
