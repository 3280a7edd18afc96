"""What the reads of a stream say before anybody judges them."""

from __future__ import annotations

from latspan._timeline import Reads


def test_the_gap_of_a_chunk_is_from_return_to_return_whoever_took_the_time() -> None:
    """One value for each chunk after the first; the read that finds the end gives no chunk."""
    reads = Reads(stamps=[0, 10, 0, 12, 30, 2, 95, 96, 2], end=(97, 200))
    assert reads.gaps_ns() == (20, 66)


def test_one_chunk_has_no_gap() -> None:
    """Neither has none."""
    assert Reads(stamps=[0, 10, 2], end=(11, 12)).gaps_ns() == ()
    assert Reads().gaps_ns() == ()
