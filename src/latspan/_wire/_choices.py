"""Number of choices of a response: as requested, and as seen in its chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from latspan._wire._body import Body
from latspan._wire._content import listed

__all__ = ["choices_in", "choices_requested"]


def choices_requested(request: Mapping[str, Any]) -> int:
    """
    Return the number of requested choices: ``n`` per prompt.

    Args:
        request: The request's fields as sent, by the API's names.
    """
    each = request.get("n")
    each = each if isinstance(each, int) and each > 1 else 1
    prompts: object = request.get("prompt")
    if prompts is None or not isinstance(prompts, list | tuple):
        return each
    several = cast("list[object] | tuple[object, ...]", prompts)
    # A list of numbers is one prompt, given as token ids.
    return each * max(1, sum(not isinstance(prompt, int) for prompt in several))


def choices_in(bodies: Iterable[Body]) -> int:
    """Return the minimum number of choices implied by the indices in ``bodies``; 1 if none."""
    most = 0
    for body in bodies:
        for choice in listed(body, "choices"):
            index = choice.get("index")
            if isinstance(index, int) and index > most:
                most = index
    return most + 1
