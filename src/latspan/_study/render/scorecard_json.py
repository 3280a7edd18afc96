"""
JSON document of ``latspan scorecard --json``.

Times are integer nanoseconds, ratios fractions in [0, 1]. A number is ``null`` if it is unknown or
has too few values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from latspan._model.censoring import Bounds
from latspan._model.goals import Target
from latspan._model.segments import Outcome
from latspan._study.scorecard import Card, Figures, PeriodRow, Ratio, Scorecard

SCORECARD_SCHEMA: Final = "latspan.scorecard/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


def scorecard_document(scorecard: Scorecard, notes: Sequence[str] = ()) -> dict[str, object]:
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


def _card(card: Card) -> dict[str, object]:
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


def _figures(row: PeriodRow, targets: Sequence[Target]) -> dict[str, object]:
    figures: Figures = row.figures
    return {
        "requests": figures.requests,
        "unsent": figures.unsent,
        "recorded_s": figures.recorded_s,
        "outcomes": {each.value: number for each in Outcome if (number := figures.outcomes[each])},
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


def _metric(
    figures: Figures, metric: str, values: Mapping[float, Bounds | None]
) -> dict[str, object]:
    known = {f"p{percentile}": each for percentile, each in values.items()}
    return {
        **asdict(figures.counts[metric]),
        **{
            name: None if each is None or not each.is_known else each.low
            for name, each in known.items()
        },
        "at_least": {
            name: each.low
            for name, each in known.items()
            if each is not None and math.isfinite(each.low) and not each.is_known
        },
        "unbounded": [
            name for name, each in known.items() if each is not None and math.isinf(each.low)
        ],
    }


def _ratio(ratio: Ratio) -> dict[str, object]:
    return {
        "count": ratio.count,
        "of": ratio.of,
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "undecided": ratio.undecided,
        "most": ratio.most,
    }
