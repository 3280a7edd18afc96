"""What reports of a server's and its gateways' own time come to, once they are fitted in."""

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

__all__ = ["NO_EVIDENCE", "Fitted", "Part", "Stage"]

Part = tuple[str, Source, int]
"""A segment's name, its source, and its length in nanoseconds."""
Stage = tuple[str, int]
"""A segment's name, and its length in nanoseconds as a server reported it."""


class Fitted(NamedTuple):
    """
    What the reports that fit say together, and which do not fit.

    Args:
        first: What came before everything else, in order, from the beginning of the wait.
        before: What happened after that and before the first token, in order, with reported
            lengths; of an answer in one piece all that happened.
        decode_ns: Reported generation after the first token of a stream; ``None`` if not
            reported.
        covers: The reports speak for the whole wait, so what they leave over is the network.
        early_ns: How much of the generation must have lain before the first token was read.
        front_untold: What they leave over is the network and a front of the server's, which says
            nothing of itself.
        rejected: The systems whose reports do not fit.
    """

    first: Sequence[Part] = ()
    before: Sequence[Stage] = ()
    decode_ns: int | None = None
    covers: bool = False
    early_ns: int = 0
    front_untold: bool = False
    rejected: tuple[str, ...] = ()

    def parts(self, wait_ns: int, reasoning_ns: int = 0, decode_ns: int = 0) -> list[Part]:
        """
        Return what the time after ``first`` was, in order and cut so that it sums exactly.

        Args:
            wait_ns: How long the stream, not its reader, took from there to the first token.
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
        if self.front_untold:
            parts = [(SERVER_WAIT, MEASURED, network_ns), *before]
        if not reasoning_ns:
            return [*parts, (DECODE, SERVER_REPORTED, generation_ns)]
        # The server reports one time for both; their shares are those that were measured.
        thinking_ns = generation_ns * reasoning_ns // flowing_ns
        return [
            *parts,
            (REASONING, ESTIMATED, thinking_ns),
            (DECODE, ESTIMATED, generation_ns - thinking_ns),
        ]


NO_EVIDENCE: Final = Fitted()
