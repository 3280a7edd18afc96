"""Markdown tables that can also be read unrendered."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """
    Return a table with aligned columns.

    Args:
        lines: The heading, then the rows, each with the same number of cells.
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([aligned[0], rule, *aligned[1:]])
