"""
Names that a misspelt one was probably meant to be, for the hint of an error.

Source of the similarity: :mod:`difflib`, the ratio of its ``SequenceMatcher``. Only an error needs
that module, and programs without errors import this one, so it is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, min_similarity: float = 0.6) -> str | None:
    """
    Return the known name that is most similar to a misspelt one, if one is similar.

    Args:
        name: The misspelt name.
        known: The known names.
        min_similarity: Similarity in [0, 1] from which a name counts; it is 0.93 if one of eight
            letters is missing.
    """
    return next(iter(by_similarity(name, known, max_count=1, min_similarity=min_similarity)), None)


def by_similarity(
    name: str, known: Iterable[str], *, max_count: int, min_similarity: float = 0.0
) -> list[str]:
    """Return at most ``max_count`` of the known names, the most similar first."""
    from difflib import get_close_matches

    return get_close_matches(name, known, max_count, min_similarity)
