"""Token counts and their source."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from latspan._model.wire import Usage


class TokenSource(StrEnum):
    """Source of a token count."""

    PROVIDER = "provider"
    """The ``usage`` of the response."""
    ESTIMATED = "estimated"
    """A local tokenizer; not the provider's count."""
    UNKNOWN = "unknown"
    """No count: the response did not include usage."""


class TokenCounts(NamedTuple):
    """
    Token counts of one call; ``None`` if not reported.

    Args:
        input: Prompt tokens, cached ones included.
        cached: The part of ``input`` that came from the provider's prompt cache.
        output: Generated tokens, reasoning included.
        reasoning: The part of ``output`` that was reasoning.
        source: Source of the counts.
        cache_write: The part of ``input`` that was written to the provider's prompt cache.
        audio_input: The part of ``input`` that was audio.
        audio_output: The part of ``output`` that was audio.

    Source: OpenTelemetry GenAI conventions, ``gen_ai.usage.*``.
    """

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None
    source: TokenSource = TokenSource.UNKNOWN
    cache_write: int | None = None
    audio_input: int | None = None
    audio_output: int | None = None


_MAX_INTEGER: Final = 2**63 - 1
"""Largest integer that OTLP can represent; a larger count from a server is discarded."""

UNKNOWN_TOKENS = TokenCounts()
"""Counts of a response that did not include usage."""


def counted_by_provider(usage: Usage | None) -> TokenCounts:
    """
    Return the counts in a provider's ``usage``.

    A count that the provider omitted is ``None``, never 0.
    """
    if usage is None:
        return UNKNOWN_TOKENS
    counts: list[int | None] = []
    for value in usage:
        # Nearly all counts are missing or integers, and need no function call each.
        if type(value) is int and 0 <= value <= _MAX_INTEGER:
            counts.append(value)
        else:
            counts.append(None if value is None else _count(value))
    prompt, cached, cache_write, output, reasoning, total, audio_input, audio_output = counts
    if output is not None and reasoning:
        output, reasoning = _generated(prompt, output, reasoning, total)
    return TokenCounts(
        input=prompt,
        cached=cached,
        cache_write=cache_write,
        output=output,
        reasoning=reasoning,
        audio_input=audio_input,
        audio_output=audio_output,
        source=TokenSource.PROVIDER,
    )


def _generated(
    prompt: int | None, output: int, reasoning: int, total: int | None
) -> tuple[int | None, int | None]:
    """
    Return the generated tokens, reasoning included, and the part that was reasoning.

    Some providers do not include reasoning in their output tokens; then the total is the sum of all
    three. If reasoning exceeds the output and the total does not explain why, both counts are
    ``None``.
    """
    if prompt is not None and total is not None:
        if total == prompt + output + reasoning:
            return output + reasoning, reasoning
        if total == prompt + output and reasoning > output:
            return output, None
    return (output, reasoning) if reasoning <= output else (None, None)


def _count(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        # Some SDKs declare counts as floating-point numbers.
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MAX_INTEGER else None
