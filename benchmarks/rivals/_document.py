"""A run as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from _bench import added
from rivals._libraries import BARE
from rivals._parts import PARTS, Part
from rivals._situations import SITUATIONS, Ask, Situation
from rivals._subjects import BASELINE
from rivals._turns import Values
from rivals._witness import Testimony

__all__ = ["document"]


def document(
    run: dict[str, Any],
    numbers: Mapping[str, Mapping[str, Values]],
    heard: Mapping[str, Mapping[str, Testimony]],
) -> dict[str, Any]:
    """
    Return what ``json.dumps`` takes.

    Args:
        run: What must be known of the run.
        numbers: The results of each part, by subject.
        heard: What each library said, by its name and the situation's.
    """
    return {
        **run,
        "parts": {name: _figures(PARTS[name], results) for name, results in numbers.items()},
        "situations": {
            situation.name: {
                "what": situation.title,
                "got": {library: said[situation.name].got for library, said in heard.items()},
                "asked": [_answers(situation, ask, heard) for ask in situation.asks],
            }
            for situation in SITUATIONS
            if heard
        },
    }


def _answers(
    situation: Situation, ask: Ask, heard: Mapping[str, Mapping[str, Testimony]]
) -> dict[str, Any]:
    said = {
        library: each[situation.name] for library, each in heard.items() if library != BARE.name
    }
    return {
        "fact": ask.fact,
        "truth": str(ask.truth),
        "answers": {library: each.answers.get(ask.fact) for library, each in said.items()},
        "right": {library: each.is_right(ask) for library, each in said.items()},
    }


def _figures(part: Part, results: Mapping[str, Values]) -> dict[str, Any]:
    bare = results[BASELINE.name]
    return {
        column.key: {
            "unit": column.unit,
            "rounds": len(bare[column.key]),
            "nothing": median(bare[column.key]),
            "added": {
                subject: asdict(added(bare[column.key], values[column.key], turns=1))
                for subject, values in results.items()
                if subject != BASELINE.name
            },
        }
        for column in part.columns
    }
