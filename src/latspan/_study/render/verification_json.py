"""
A verification as JSON, schema ``latspan.verification/1``, and as Markdown.

It is a comparison with what was changed, the quality of the answers and one conclusion.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict

from latspan._model.text import in_words
from latspan._study.compare import Judgement
from latspan._study.fields import Items, Limits
from latspan._study.render.comparison_json import (
    ComparisonDocument,
    comparison_document,
    comparison_markdown,
)
from latspan._study.render.markdown import escaped
from latspan._study.verify import CommandQuality, Quality, QualityJudgement, Verification

VERIFICATION_SCHEMA: Final = "latspan.verification/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


class VerifiedLever(TypedDict):
    """A lever that was pulled."""

    name: str
    moves: Annotated[list[str], "Segments that it should shorten; empty if that depends"]


class AnswerQuality(TypedDict):
    """Quality of the answers before and after."""

    judgement: QualityJudgement
    method: Annotated[
        Literal["items", "command"],
        "items: scores of an evaluation set; command: exit codes, so the numbers are null",
    ]
    sentence: str
    items: Annotated[int, Limits(minimum=1)] | None
    before: Annotated[float | None, "Mean score, from 0 to 1"]
    after: float | None
    low: Annotated[float | None, "Lower end of the 90 % interval of the difference"]
    high: float | None
    margin: Annotated[float | None, "Largest drop of the mean score that is accepted"]
    worse: Annotated[list[str], "Items with a lower score after the change"]
    characters_before: Annotated[float | None, "Mean length of the answers"]
    characters_after: float | None


class VerificationDocument(TypedDict):
    """Whether one change improved the goal and hurt nothing else: latspan verify --json."""

    schema: Literal["latspan.verification/1"]
    judgement: Annotated[
        Judgement,
        "The judgement of the comparison, unless the quality, the lever or the system changes it",
    ]
    sentence: str
    levers: Annotated[list[VerifiedLever], Items(minimum=1)]
    attributable: Annotated[bool, "Whether only one lever was pulled"]
    quality: Annotated[AnswerQuality | None, "Quality of the answers; null if it was not checked"]
    comparison: Annotated[ComparisonDocument, "A document of the schema latspan.comparison/1"]
    notes: list[str]


def verification_document(found: Verification) -> VerificationDocument:
    """Return a verification as plain data, ready for ``json.dumps``."""
    return {
        "schema": VERIFICATION_SCHEMA,
        "judgement": found.judgement,
        "sentence": found.sentence,
        "levers": [
            {"name": lever.name, "moves": [str(each) for each in lever.moves]}
            for lever in found.levers
        ],
        "attributable": found.is_attributable,
        "quality": None if found.quality is None else _quality(found.quality),
        "comparison": comparison_document(found.comparison),
        "notes": list(found.notes),
    }


def _quality(quality: Quality | CommandQuality) -> AnswerQuality:
    """Return the result of the check of the quality; both forms have the same fields."""
    is_command = isinstance(quality, CommandQuality)
    return {
        "judgement": quality.judgement,
        "method": "command" if is_command else "items",
        "sentence": quality.sentence,
        "items": None if is_command else quality.items,
        "before": None if is_command else quality.before,
        "after": None if is_command else quality.after,
        "low": None if is_command else quality.low,
        "high": None if is_command else quality.high,
        "margin": None if is_command else quality.margin,
        "worse": [] if is_command else list(quality.worse),
        "characters_before": None if is_command else quality.lengths[0],
        "characters_after": None if is_command else quality.lengths[1],
    }


def verification_markdown(found: Verification) -> str:
    """Return a verification as Markdown, for a pull request."""
    levers = ", ".join(lever.name for lever in found.levers)
    lines = [
        f"## {escaped(levers)}: {in_words(found.judgement)}",
        "",
        f"**{escaped(found.sentence)}**",
        "",
    ]
    lines += [f"- {escaped(note)}" for note in found.notes]
    return "\n".join(lines) + "\n\n" + comparison_markdown(found.comparison)
