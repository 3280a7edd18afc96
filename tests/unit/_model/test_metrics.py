"""The formulas of felt speed, against references that are obviously right and slow."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._model.metrics import buffer_needed, fluidity, metric_named, stalls, tokens_before
from latspan._model.units import BILLIONTHS
from latspan.errors import UnknownNameError

GAPS = st.lists(st.integers(0, 50), min_size=1, max_size=30)
TOKENS = st.integers(1, 60)


def arrivals_of_tokens(arrivals: list[int], before: list[int]) -> list[int]:
    """Return when each token arrived: with its chunk."""
    return [
        arrival
        for arrival, (first, following) in zip(arrivals, pairwise(before), strict=True)
        for _ in range(following - first)
    ]


def etalons_fluidity(arrivals: list[int], first_deadline: int, deadline: int) -> Fraction:
    """Return the fluidity-index as algorithm 1 of arXiv 2507.09019 has it, token by token."""
    total = missed = slack = previous = 0
    for number, arrival in enumerate(arrivals):
        took, previous = arrival - previous, arrival
        allowed = deadline if number else first_deadline
        if took <= allowed + slack:
            slack += allowed - took
            total += 1
        else:
            misses = (took - slack - allowed) // deadline + 1
            missed += misses
            total += misses
            slack = 0
    return 1 - Fraction(missed, total)


@given(GAPS, TOKENS, st.integers(0, 60), st.integers(1, 20))
def test_fluidity_is_etalons(gaps: list[int], tokens: int, first: int, each: int) -> None:
    """A chunk of several tokens, or of none, is what its tokens one by one are."""
    arrivals = list(accumulate(gaps))
    before = list(tokens_before(len(arrivals), tokens))

    held = fluidity(arrivals, before, due_ns=first, token_ns=each)

    wanted = etalons_fluidity(arrivals_of_tokens(arrivals, before), first, each)
    assert held == round(wanted * BILLIONTHS)


def test_the_same_stall_costs_more_where_nothing_is_banked() -> None:
    """As the paper has it: an early stall is felt, a later one is absorbed by slack."""
    early = list(accumulate([10, 100, *([10] * 18)]))
    late = list(accumulate([10] * 19 + [100]))

    def share(arrivals: list[int]) -> int:
        return fluidity(arrivals, range(21), due_ns=20, token_ns=20)

    # Nine tokens banked 10 each; the early one came 70 after its deadline: four were missed.
    assert share(late) == BILLIONTHS
    assert share(early) == round(Fraction(19, 23) * BILLIONTHS)


@given(GAPS, TOKENS, st.integers(0, 20))
def test_the_buffer_is_the_shortest_with_which_no_reader_waits(
    gaps: list[int], tokens: int, reading: int
) -> None:
    """With it every token is there when it is to be read; with less one is not."""
    arrivals = list(accumulate(gaps))
    before = list(tokens_before(len(arrivals), tokens))

    needed = buffer_needed(arrivals, before, reading_ns=reading)

    def waits(buffer: int) -> bool:
        tokens_arrive = arrivals_of_tokens(arrivals, before)
        begin = arrivals[0] + buffer
        return any(there > begin + k * reading for k, there in enumerate(tokens_arrive))

    assert needed >= 0
    assert not waits(needed)
    assert needed == 0 or waits(needed - 1)


@given(st.integers(1, 40), TOKENS)
def test_tokens_are_spread_evenly(chunks: int, tokens: int) -> None:
    """All of them, and as many in each chunk as in any other, give or take one."""
    before = list(tokens_before(chunks, tokens))
    each = [following - first for first, following in pairwise(before)]

    assert before[0] == 0
    assert sum(each) == tokens
    assert len(each) == chunks
    assert max(each) - min(each) <= 1


def test_as_many_tokens_as_chunks_are_one_each() -> None:
    """Nothing is guessed then."""
    assert list(tokens_before(3, 3)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("gaps_ns", "limit_ns", "expected"),
    [
        ([4, 6], 6, (0, 0, 0)),
        ([3], 2, (1, 1, 333_333_333)),
        ([0, 3, 3], 1, (2, 4, 666_666_667)),
        ([0], 1, (0, 0, None)),
    ],
)
def test_the_stall_ratio_is_of_the_generation(
    gaps_ns: list[int], limit_ns: int, expected: tuple[int, int, int | None]
) -> None:
    """Undefined where no time passed, rounded to the nearest billionth."""
    assert stalls(gaps_ns, limit_ns) == expected


def test_a_segment_is_no_metric() -> None:
    """A goal cannot name it; the hint states where its times are."""
    with pytest.raises(UnknownNameError, match="no metric 'queue': it is a segment") as caught:
        metric_named("queue")
    assert "segment('queue')" in str(caught.value.hint)


def test_a_metrics_name_is_a_text() -> None:
    """Often the two arguments of ``percentile`` are swapped."""
    swapped: Any = 95
    with pytest.raises(UnknownNameError, match="95 is not the name of a metric") as caught:
        metric_named(swapped)
    assert caught.value.hint == "the name comes first, for example percentile('ttft', 95)"
