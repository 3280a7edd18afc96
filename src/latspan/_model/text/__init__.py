"""
Drawings of records as plain text: numbers in words, one line per request, waterfalls.

The package has no dependencies, so a running process can use it. ``latspan.reports`` adds tables
and colours for terminals.
"""

from __future__ import annotations

from latspan._model.text._request import FAINT, StyledLine, line_of, style_of, waterfall
from latspan._model.text._words import (
    GLOSSARY,
    SOURCE_LETTERS,
    SOURCE_WORDS,
    count,
    difference,
    in_words,
    instant,
    letters,
    listed,
    needs,
    percent,
    quantity,
    span_of_time,
)

__all__ = [
    "FAINT",
    "GLOSSARY",
    "SOURCE_LETTERS",
    "SOURCE_WORDS",
    "StyledLine",
    "count",
    "difference",
    "in_words",
    "instant",
    "letters",
    "line_of",
    "listed",
    "needs",
    "percent",
    "quantity",
    "span_of_time",
    "style_of",
    "waterfall",
]
