"""
A verification as text, as JSON of the schema ``latspan.verification/1`` and as Markdown.

It is a comparison with what was changed, the quality of the answers and one conclusion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._model.text import FAINT, in_words
from latspan._study.render.comparison import JUDGEMENT_STYLES, ComparisonReport
from latspan._study.render.comparison_json import comparison_document, comparison_markdown
from latspan._study.render.layout import prose, title
from latspan._study.render.markdown import escaped
from latspan._study.verify import CommandQuality, Quality, Verification

VERIFICATION_SCHEMA: Final = "latspan.verification/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """
    A verification.

    Args:
        verification: Result to show.
    """

    verification: Verification

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the comparison, and below it the conclusion."""
        del console
        found = self.verification
        levers = ", ".join(f"{lever.name} ({lever.summary})" for lever in found.levers)
        yield title("changed", levers, options=options)
        yield ComparisonReport(found.comparison)
        yield Text()
        word = Text(in_words(found.judgement), style=JUDGEMENT_STYLES[found.judgement])
        yield Text.assemble("verdict: ", word)
        if found.sentence != found.comparison.sentence:
            yield prose(found.sentence, options, style="bold")
        for note in found.notes:
            yield prose(note, options, style=FAINT)


def verification_document(found: Verification) -> dict[str, object]:
    """Return a verification as plain data, ready for ``json.dumps``."""
    return {
        "schema": VERIFICATION_SCHEMA,
        "judgement": found.judgement.value,
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


def _quality(quality: Quality | CommandQuality) -> dict[str, object]:
    """Return the result of the check of the quality; both forms have the same fields."""
    is_command = isinstance(quality, CommandQuality)
    return {
        "judgement": quality.judgement.value,
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
