"""What the reads of a stream say: arrivals, gaps, and whose time each interval was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from latspan._timeline._marks import Reads
from latspan.metrics import MetricValue
from latspan.segments import Mark, Source
from latspan.wire import ChunkKind

__all__ = ["Arrival", "Phase", "Piece", "Stream", "read_stream"]

_VISIBLE: Final = int(ChunkKind.VISIBLE)
_held: Final = itemgetter(1)


class Phase(Enum):
    """What a stream was doing during an interval between two reads' returns."""

    WAIT = auto()
    """No token had come."""
    REASONING = auto()
    """Reasoning came, nothing visible had."""
    DECODE = auto()
    """Tokens came."""
    TAIL = auto()
    """The last token had come."""


class Arrival(NamedTuple):
    """
    When a chunk arrived.

    Args:
        instant_ns: Monotonic nanoseconds; at the latest, where ``source`` is ``estimated``.
        source: ``measured`` where a read waited for it, else ``estimated``.
    """

    instant_ns: int
    source: Source


class Piece(NamedTuple):
    """
    An interval in which a stream did one thing, between two reads' returns.

    Args:
        begin_ns: When it began, monotonic nanoseconds.
        end_ns: When it ended.
        phase: What the stream was doing.
        held: The caller held the stream and the reads found their chunks waiting: the interval
            is the caller's time, not the stream's.
    """

    begin_ns: int
    end_ns: int
    phase: Phase
    held: bool


class Stream(NamedTuple):
    """
    A stream as it was read.

    Args:
        handed_over_ns: When the caller got it.
        arrivals: When the chunks that matter arrived.
        token_arrivals: Of every token-bearing chunk, in order.
        unseen_chunks: How many of those came before the first visible one; all, where none was.
        all_pieces: What it did from the handing-over to the last read's return, in order.
    """

    handed_over_ns: int
    arrivals: Mapping[Mark, Arrival]
    token_arrivals: tuple[Arrival, ...]
    unseen_chunks: int
    all_pieces: tuple[Piece, ...]

    @property
    def last_return_ns(self) -> int:
        """When the last read returned."""
        return self.all_pieces[-1].end_ns if self.all_pieces else self.handed_over_ns

    def pieces(self, phase: Phase) -> Iterator[Piece]:
        """Yield the pieces of one phase, in order."""
        return (piece for piece in self.all_pieces if piece.phase is phase)

    def flowing_ns(self, phase: Phase) -> int:
        """Return how long the stream, not its reader, took in ``phase``."""
        return sum(
            max(0, piece.end_ns - piece.begin_ns) for piece in self.pieces(phase) if not piece.held
        )

    def gaps(self) -> tuple[MetricValue, ...]:
        """Return the differences of successive arrivals of token-bearing chunks."""
        return tuple(
            MetricValue(later_ns - earlier_ns, source.weaker(before))
            for (earlier_ns, before), (later_ns, source) in pairwise(self.token_arrivals)
        )


def read_stream(reads: Reads, handed_over_ns: int) -> Stream:
    """
    Return what the reads say.

    Args:
        reads: The reads as they were stamped.
        handed_over_ns: When the caller got the stream, monotonic nanoseconds.
    """
    returns = list(reads.returns(handed_over_ns))
    kinds = reads.kinds
    tokens = [index for index, kind in enumerate(kinds) if kind]
    visible = kinds.index(_VISIBLE) if _VISIBLE in kinds else None
    token_arrivals = tuple(_arrival(returns[index]) for index in tokens)
    arrivals: dict[Mark, Arrival] = {}
    if kinds:
        arrivals[Mark.FIRST_CHUNK] = _arrival(returns[0])
    if tokens:
        arrivals[Mark.FIRST_TOKEN] = token_arrivals[0]
        arrivals[Mark.LAST_TOKEN] = token_arrivals[-1]
    if visible is not None:
        arrivals[Mark.FIRST_VISIBLE] = _arrival(returns[visible])
    return Stream(
        handed_over_ns=handed_over_ns,
        arrivals=arrivals,
        token_arrivals=token_arrivals,
        unseen_chunks=len(tokens) if visible is None else tokens.index(visible),
        all_pieces=tuple(_pieces(returns, handed_over_ns, tokens, visible)),
    )


def _pieces(
    returns: list[tuple[int, bool]], begin_ns: int, tokens: list[int], visible: int | None
) -> Iterator[Piece]:
    """Yield a piece for each run of reads of one phase, held or not."""
    begin = 0
    for phase, end in _phases(len(returns), tokens, visible):
        for held, run in groupby(returns[begin:end], key=_held):
            *_, (end_ns, _) = run
            yield Piece(begin_ns, end_ns, phase, held)
            begin_ns = end_ns
        begin = end


def _phases(reads: int, tokens: list[int], visible: int | None) -> tuple[tuple[Phase, int], ...]:
    """Return the phases in order, and how many reads there were up to the end of each."""
    if not tokens:
        return ((Phase.WAIT, reads),)
    last = tokens[-1] + 1
    return (
        (Phase.WAIT, tokens[0] + 1),
        (Phase.REASONING, last if visible is None else visible + 1),
        (Phase.DECODE, last),
        (Phase.TAIL, reads),
    )


def _arrival(returned: tuple[int, bool]) -> Arrival:
    instant_ns, reader_bound = returned
    return Arrival(instant_ns, Source.ESTIMATED if reader_bound else Source.MEASURED)
