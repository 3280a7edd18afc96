"""
Token counts: the provider's own first, and always with their source.

Counting locally is opt-in, never on the request's path, and marked estimated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

__all__ = ["UNKNOWN_TOKENS", "TokenCounts", "TokenSource", "counted_by_provider"]


class TokenSource(StrEnum):
    """Who counted the tokens."""

    PROVIDER = "provider"
    """The ``usage`` of the answer."""
    ESTIMATED = "estimated"
    """A tokenizer on this side; not the provider's count."""
    UNKNOWN = "unknown"
    """Nobody: the answer carried no usage."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """
    The tokens of one call; ``None`` where nobody said.

    Args:
        input: Prompt tokens, cached ones included.
        cached: The part of ``input`` that came from the provider's prompt cache.
        output: Generated tokens, reasoning included.
        reasoning: The part of ``output`` that was reasoning.
        source: Who counted.

    Source: OpenTelemetry GenAI conventions, ``gen_ai.usage.*``.
    """

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None
    source: TokenSource = TokenSource.UNKNOWN


_MOST: Final = 2**63 - 1
"""The most that OTLP can carry; a server that says more is not believed."""

UNKNOWN_TOKENS = TokenCounts()
"""The counts of an answer that carried no usage."""


def counted_by_provider(usage: Mapping[str, Any] | None) -> TokenCounts:
    """
    Return the counts in a provider's ``usage``, OpenAI's field names.

    A detail that the provider left out is ``None``, never 0.
    """
    if not usage:
        return UNKNOWN_TOKENS
    return TokenCounts(
        input=_count(usage, "prompt_tokens"),
        cached=_count(usage, "prompt_tokens_details", "cached_tokens"),
        output=_count(usage, "completion_tokens"),
        reasoning=_count(usage, "completion_tokens_details", "reasoning_tokens"),
        source=TokenSource.PROVIDER,
    )


def _count(usage: Mapping[str, Any], *path: str) -> int | None:
    value: Any = usage
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(name)
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if usable else None
