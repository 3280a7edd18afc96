"""JSON document of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from _bench import added
from rivals._libraries import BARE
from rivals._parts import PARTS, Part
from rivals._situation_result import SituationResult
from rivals._situations import SITUATIONS, Question, Situation
from rivals._subjects import BASELINE
from rivals._turns import Values


def document(
    run: dict[str, Any],
    numbers: Mapping[str, Mapping[str, Values]],
    results: Mapping[str, Mapping[str, SituationResult]],
) -> dict[str, Any]:
    """
    Return the run as values that ``json.dumps`` accepts.

    Args:
        run: Conditions of the run.
        numbers: Results by part and subject.
        results: Results by library and situation.
    """
    return {
        **run,
        "parts": {name: _figures(PARTS[name], results) for name, results in numbers.items()},
        "situations": {
            situation.name: {
                "what": situation.title,
                "got": {library: found[situation.name].got for library, found in results.items()},
                "questions": [
                    _answers(situation, question, results) for question in situation.questions
                ],
            }
            for situation in SITUATIONS
            if results
        },
    }


def _answers(
    situation: Situation, question: Question, results: Mapping[str, Mapping[str, SituationResult]]
) -> dict[str, Any]:
    found = {
        library: each[situation.name] for library, each in results.items() if library != BARE.name
    }
    return {
        "question": question.fact,
        "correct": str(question.correct),
        "answers": {library: each.answers.get(question.fact) for library, each in found.items()},
        "right": {library: each.is_right(question) for library, each in found.items()},
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
