"""What one chunk of a streamed answer bears."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ChunkKind"]


class ChunkKind(IntEnum):
    """
    What a chunk bears, as the one content test a chunk costs.

    A chunk is not a token: it may bear several, or none.
    """

    EMPTY = 0
    """No token: a role, a finish reason, usage, progress, an empty delta."""
    REASONING = 1
    """Reasoning that the user does not see as the answer."""
    VISIBLE = 2
    """Text, tool-call arguments, a refusal or audio."""
