"""Sections of the doctor's reports: rows of a mark, a name and an explanation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from latspan._base.shown import printable

if TYPE_CHECKING:
    from latspan._live.sdk._variables import VariableFinding

Row = tuple[str, str, str]
"""A mark (``ok``, ``note``, ``fail`` or empty), a name and an explanation."""


def section(title: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a section, with its explanations aligned and its text made printable."""
    yield title
    shown = [(mark, printable(name), printable(explanation)) for mark, name, explanation in rows]
    width = max((len(name) for _, name, _ in shown), default=0)
    for mark, name, explanation in shown:
        yield f"  {mark:<4}  {name:<{width}}  {explanation}".rstrip()
    yield ""


def variable_rows(findings: Sequence[VariableFinding]) -> Iterator[Row]:
    """Yield the rows of a section about environment variables."""
    for each in findings:
        yield "fail" if each.is_error else "note", each.variable, each.problem
        if each.hint is not None:
            yield "", "", f"hint: {each.hint}"
    if not findings:
        yield "ok", "none is misspelt or invalid", ""


def verdict(*, ok: bool) -> str:
    """Return the last line of a report."""
    return "no problem found" if ok else "problems found: see the lines marked fail"
