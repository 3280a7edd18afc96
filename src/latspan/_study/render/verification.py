"""
A verification on a terminal.

It is a comparison with what was changed, the quality of the answers and one conclusion.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._model.text import FAINT, in_words
from latspan._study.render.comparison import JUDGEMENT_STYLES, ComparisonReport
from latspan._study.render.layout import prose, title
from latspan._study.verify import Verification


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
