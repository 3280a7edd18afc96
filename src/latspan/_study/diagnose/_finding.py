"""Finding of a rule: a cause, the evidence for it, one lever, and what would refute it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding", "milliseconds", "times"]


@dataclass(frozen=True, slots=True)
class Finding:
    """
    A cause of the time in the leading segment.

    Args:
        cause: Name of the cause, as in the table of the documentation.
        summary: The cause as a sentence without its subject, for example ``requests wait in the
            server's queue``.
        lever: The one change to try.
        evidence: Numbers that support it, one sentence each.
        refuted_by: Observation that would refute it.
        segments: Segments that the cause explains.
    """

    cause: str
    summary: str
    lever: str
    evidence: tuple[str, ...]
    refuted_by: str
    segments: tuple[str, ...]


def milliseconds(value_ns: float) -> str:
    """Return a time for a sentence."""
    value = value_ns / 1e6
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"


def times(ratio: float) -> str:
    """Return a ratio for a sentence."""
    return f"{ratio:.1f} times"
