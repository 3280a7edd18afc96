"""Result of fitting the reported times of a server and its gateways into the client's times."""

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
    Combined content of the reports that fit, and the systems of those that do not.

    Args:
        first: Parts before everything else, in order, from the beginning of the wait.
        before: Stages after that and before the first token, in order, with reported lengths; for
            a response in one piece, all stages.
        decode_ns: Reported generation after the first token of a stream; ``None`` if not
            reported.
        covers: The reports account for the whole wait, so the time that they leave over is the
            network.
        early_ns: Part of the generation that must have lain before the first token was read.
        front_untold: The time that they leave over is the network and a part of the server in
            front, which reports no times.
        rejected: Systems whose reports do not fit.
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
        Return the parts of the time after ``first``, in order and cut so that they sum exactly.

        Args:
            wait_ns: Time that the stream, not its reader, took from there to the first token.
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
        # The server reports one time for both; it is divided in the measured proportion.
        thinking_ns = generation_ns * reasoning_ns // flowing_ns
        return [
            *parts,
            (REASONING, ESTIMATED, thinking_ns),
            (DECODE, ESTIMATED, generation_ns - thinking_ns),
        ]


NO_EVIDENCE: Final = Reconciled()
