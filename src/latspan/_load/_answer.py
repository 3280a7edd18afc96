"""Result of one sent request, as far as the load runner needs it; everything else is recorded."""

from __future__ import annotations

from dataclasses import dataclass

from latspan._segments import Outcome

__all__ = ["Answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    How one request ended.

    Args:
        outcome: How it ended.
        duration_ns: Nanoseconds from its start to its end.
        first_token_ns: Nanoseconds from its start to its first token; ``None`` if there was none,
            or if this is not known.
        status: HTTP status; ``None`` if there was no response.
        error: The exception that ended it.
        error_body: First bytes of the body of an error status.
    """

    outcome: Outcome
    duration_ns: int
    first_token_ns: int | None = None
    status: int | None = None
    error: BaseException | None = None
    error_body: bytes = b""
