"""Result of the reconciliation of reported times with the client's times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from latspan._segments import Source
from latspan._timeline._constants import (
    DECODE,
    ESTIMATED,
    MEASURED,
    NETWORK,
    REASONING,
    SERVER_REPORTED,
    SERVER_WAIT,
)

__all__ = ["NO_EVIDENCE", "Part", "Reconciled", "Stage"]

Part = tuple[str, Source, int]
"""A segment's name, its source, and its length in nanoseconds."""
Stage = tuple[str, int]
"""A segment's name, and its length in nanoseconds as a server reported it."""


class Reconciled(NamedTuple):
    """
    Combined content of the reports that fit, and the names of the systems whose reports do not.

    Args:
        first: Parts at the beginning of the wait, in order.
        before: Stages between ``first`` and the first token, in order, with reported lengths; all
            stages if the response is not streamed.
        decode_ns: Reported generation after the first token of a stream; ``None`` if not
            reported.
        covers: Whether the reports cover the whole wait, so that the remaining time is network
            time.
        early_ns: Part of the generation that must have happened before the first token was read, in
            nanoseconds.
        has_unreported_front: Whether the remaining time also includes a part of the server that
            reports no time.
        rejected: Names of the systems whose reports do not fit.
    """

    first: Sequence[Part] = ()
    before: Sequence[Stage] = ()
    decode_ns: int | None = None
    covers: bool = False
    early_ns: int = 0
    has_unreported_front: bool = False
    rejected: tuple[str, ...] = ()

    def parts(self, wait_ns: int, reasoning_ns: int = 0, decode_ns: int = 0) -> list[Part]:
        """
        Return the parts after ``first``, in order and cut to sum exactly to the given times.

        Args:
            wait_ns: Nanoseconds from there to the first token, without the intervals that the
                caller held.
            reasoning_ns: The same, from there to the first visible token.
            decode_ns: The same, from there to the last token.
        """
        left = wait_ns
        before: list[Part] = []
        for name, reported_ns in self.before:
            length = min(reported_ns, left)
            left -= length
            before.append((name, SERVER_REPORTED, length))
        if self.covers and self.decode_ns is None:
            return [*before, (NETWORK, ESTIMATED, left)]
        if not self.covers or self.decode_ns is None:
            return [
                (SERVER_WAIT, MEASURED, left),
                *before,
                (REASONING, MEASURED, reasoning_ns),
                (DECODE, MEASURED, decode_ns),
            ]
        flowing_ns = reasoning_ns + decode_ns
        early_ns = min(self.early_ns, left)
        network_ns = left - early_ns + max(0, flowing_ns - self.decode_ns)
        generation_ns = left + flowing_ns - network_ns
        parts = [*before, (NETWORK, ESTIMATED, network_ns)]
        if self.has_unreported_front:
            parts = [(SERVER_WAIT, MEASURED, network_ns), *before]
        if not reasoning_ns:
            return [*parts, (DECODE, SERVER_REPORTED, generation_ns)]
        # The server reports a single time for both, which is divided in the measured proportion.
        thinking_ns = generation_ns * reasoning_ns // flowing_ns
        return [
            *parts,
            (REASONING, ESTIMATED, thinking_ns),
            (DECODE, ESTIMATED, generation_ns - thinking_ns),
        ]


NO_EVIDENCE: Final = Reconciled()
