"""Text in Markdown, for a ticket, a pull request or the summary of a CI step."""

from __future__ import annotations

from typing import Final

from latspan._base.shown import printable

_MAX_TEXT_LENGTH: Final = 10_000
"""Maximum number of characters of a text."""


def escaped(text: str) -> str:
    """Return a text on one line, without characters that Markdown or a terminal interprets."""
    text = printable(text, max_length=_MAX_TEXT_LENGTH)
    for character in "\\`*_[]|<>":
        text = text.replace(character, f"\\{character}")
    return text
