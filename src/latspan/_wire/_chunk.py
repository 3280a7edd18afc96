"""Kinds of chunks in a streamed response."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ChunkKind"]


class ChunkKind(IntEnum):
    """
    Kind of content in a chunk, the result of the one content test per chunk.

    A chunk is not a token: it may contain several tokens, or none.
    """

    EMPTY = 0
    """No token: a role, a finish reason, usage, progress, an empty delta."""
    REASONING = 1
    """Reasoning, which the user does not see as part of the response."""
    VISIBLE = 2
    """Text, tool-call arguments, a refusal or audio."""
