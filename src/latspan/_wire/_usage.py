"""A provider's own token counts, whatever it calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["Usage", "at", "mapping"]


class Usage(NamedTuple):
    """
    What a provider counted, as it stands in its answer; unchecked, ``None`` where it said nothing.

    Args:
        input: Prompt tokens, cached ones included.
        cached: The part of ``input`` that was read from the prompt cache.
        cache_write: The part of ``input`` that was written to the prompt cache.
        output: Generated tokens. Most providers include reasoning, some count it apart.
        reasoning: Generated tokens that were reasoning.
        total: All tokens, by which those two kinds of providers are told apart.
        audio_input: The part of ``input`` that was audio.
        audio_output: The part of ``output`` that was audio.
    """

    input: object = None
    cached: object = None
    cache_write: object = None
    output: object = None
    reasoning: object = None
    total: object = None
    audio_input: object = None
    audio_output: object = None


_NOTHING: Final[Mapping[str, Any]] = {}


def mapping(value: Any) -> Mapping[str, Any]:
    """Return ``value`` if it is a mapping, and an empty one for anything else."""
    if isinstance(value, dict) or (value is not None and isinstance(value, Mapping)):
        return value  # pyright: ignore[reportUnknownVariableType] - not by `cast`, which is a call
    return _NOTHING


def at(body: Mapping[str, Any], *path: str) -> Any:
    """Return what stands in ``body`` at ``path``, ``None`` where the way to it is missing."""
    value: Any = body
    for name in path:
        # Nearly always a dict or nothing, and asking an abstract class takes ten times as long.
        if value is None or (not isinstance(value, dict) and not isinstance(value, Mapping)):
            return None
        # Not by `cast`, which is a call of its own: this is done many times for each answer.
        value = value.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]
