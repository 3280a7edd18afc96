"""Gaps are computed from the raw reads of a stream."""

from __future__ import annotations

from latspan._model.timeline import NO_CHUNK, Reads


def test_the_gap_of_a_chunk_is_from_return_to_return() -> None:
    """One value per chunk after the first; the read that finds the end has no chunk."""
    reads = Reads(stamps=[0, 10, 0, 12, 30, 2, 95, 96, 2], end=(97, 200))
    assert reads.gaps_ns() == (20, 66)


def test_a_single_chunk_has_no_gap() -> None:
    """Nor does an empty stream."""
    assert Reads(stamps=[0, 10, 2], end=(11, 12)).gaps_ns() == ()
    assert Reads().gaps_ns() == ()


def test_a_read_without_a_chunk_counts_only_as_a_wait() -> None:
    """Neither as a chunk nor in the gaps between chunks."""
    reads = Reads(stamps=[0, 10, 2, 10, 50, NO_CHUNK, 50, 60, 0, 60, 90, 2])
    assert reads.chunks() == ([0, 2, 3], [2, 0, 0, 2])
    assert reads.gaps_ns() == (50, 30)
