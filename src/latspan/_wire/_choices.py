"""Several answers to one request: what asks for them, and how their chunks are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from latspan._wire._body import Body
from latspan._wire._content import listed

__all__ = ["choices_asked", "choices_in"]


def choices_asked(request: Mapping[str, Any]) -> int:
    """
    Return how many answers a request asks for at once: ``n`` of each of its prompts.

    Args:
        request: By the API's names of its parts, as it is sent.
    """
    each = request.get("n")
    each = each if isinstance(each, int) and each > 1 else 1
    prompts: object = request.get("prompt")
    if prompts is None or not isinstance(prompts, list | tuple):
        return each
    several = cast("list[object] | tuple[object, ...]", prompts)
    # A list of numbers is one prompt, in tokens.
    return each * max(1, sum(not isinstance(prompt, int) for prompt in several))


def choices_in(bodies: Iterable[Body]) -> int:
    """Return how many answers there are at least by the indices in ``bodies``; 1 without any."""
    most = 0
    for body in bodies:
        for choice in listed(body, "choices"):
            index = choice.get("index")
            if isinstance(index, int) and index > most:
                most = index
    return most + 1
