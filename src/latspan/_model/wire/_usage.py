"""Token counts reported by a provider, under common names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Usage(NamedTuple):
    """
    Token counts as a provider reported them, not validated; ``None`` for a missing count.

    Args:
        input: Prompt tokens, cached ones included.
        cached: The part of ``input`` that was read from the prompt cache.
        cache_write: The part of ``input`` that was written to the prompt cache.
        output: Generated tokens. Most providers include reasoning, some count it separately.
        reasoning: Generated tokens that were reasoning.
        total: All tokens; the total shows whether ``output`` includes reasoning.
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
    """Return ``value`` if it is a mapping, otherwise an empty mapping."""
    if isinstance(value, dict) or (value is not None and isinstance(value, Mapping)):
        return value  # pyright: ignore[reportUnknownVariableType] - not by `cast`, which is a call
    return _NOTHING


def get_path(body: Mapping[str, Any], *path: str) -> Any:
    """Return the value at ``path`` in ``body``, ``None`` if any part of the path is missing."""
    value: Any = body
    for name in path:
        # Nearly always a dict or `None`, and `isinstance` with an abstract class takes ten times
        # as long, so it comes last.
        if value is None or (not isinstance(value, dict) and not isinstance(value, Mapping)):
            return None
        # `cast` would add a function call, and this runs many times per response.
        value = value.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]
