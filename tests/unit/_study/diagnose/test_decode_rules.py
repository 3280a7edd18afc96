"""Rules on the pace of streams, on a server that decodes a batch step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from support.tables import SIZE, cause_of, in_tail, poisson


class _Batch(NamedTuple):
    """
    A server that processes prompts and decodes all streams in one batch.

    Args:
        step_ms: Time of a step, in which each stream gets a token.
        per_stream_ms: More time of it for each other stream.
        per_context_ms: More time of it for each prompt token of the streams.
        per_prompt_ms: More time of it for each prompt token that it processes.
    """

    step_ms: float = 6.0
    per_stream_ms: float = 0.02
    per_context_ms: float = 0.0
    per_prompt_ms: float = 0.0

    def cause(self, mean_ms: float, prompts: Sequence[float], *, gaps: bool = True) -> str | None:
        """
        Return the cause that is named for independent requests of 100 tokens.

        Args:
            mean_ms: Mean time between two requests.
            prompts: Number of tokens of each prompt.
            gaps: Whether the gaps of streams are known.
        """
        starts = poisson(seed=3, mean_ms=mean_ms)
        arrived: list[list[float]] = [[] for _ in prompts]
        active: list[int] = []
        now, come = 0.0, 0
        while come < SIZE or active:
            now = max(now, starts[come]) if not active and come < SIZE else now
            begun = come
            while come < SIZE and starts[come] <= now:
                come += 1
            new = range(begun, come)
            now += self.step_ms + self.per_stream_ms * len(active)
            now += self.per_context_ms * sum(prompts[each] for each in active)
            now += self.per_prompt_ms * sum(prompts[each] for each in new)
            active += new
            for each in active:
                arrived[each].append(now)
            active = [each for each in active if len(arrived[each]) < 101]
        first = [times[0] - start for times, start in zip(arrived, starts, strict=True)]
        segments = {"prefill": first, "decode": [times[-1] - times[0] for times in arrived]}
        between = [np.diff(times) for times in arrived]
        usual = [float(np.median(each)) for each in between]
        numbers: dict[str, Any] = {
            "input_tokens": prompts,
            "output_tokens": [100.0] * SIZE,
            "time_to_first_token": [1e6 * each for each in first],
        }
        if gaps:
            numbers["chunk_gap_median"] = [1e6 * each for each in usual]
            numbers["chunk_gap_max"] = [1e6 * float(each.max()) for each in between]
            numbers["stalled"] = [
                1e6 * float((each[each > 5 * half] - half).sum())
                for each, half in zip(between, usual, strict=True)
            ]
        return cause_of(segments, starts=starts, numbers=numbers)


def _some_long(tokens: float) -> list[float]:
    return np.where(np.random.default_rng(4).random(SIZE) < 0.1, tokens, 200.0).tolist()


@pytest.mark.parametrize("gaps", [True, False])
def test_long_prompts_hold_streams(*, gaps: bool) -> None:
    """Without the gaps of streams, their time per token shows it."""
    server = _Batch(per_prompt_ms=0.2)
    assert server.cause(430, _some_long(4_000), gaps=gaps) == "prefill_interference"


def test_a_batch_that_prompts_hold_a_little_is_one() -> None:
    """Its time per token follows both the prompts of others and their number."""
    prompts = np.random.default_rng(4).lognormal(np.log(600), 0.3, SIZE).round().tolist()
    server = _Batch(per_stream_ms=1.0, per_prompt_ms=0.1)
    assert server.cause(400, prompts) == "batch_contention"


def test_long_contexts_slow_a_batch() -> None:
    """Each step reads all contexts, whatever the number of streams."""
    server = _Batch(per_context_ms=0.001)
    assert server.cause(400, _some_long(6_000)) == "batch_contention"


def test_prompts_that_take_little_time_hold_no_stream_for_long() -> None:
    """A stream that stalls for 4 s meets a long prompt meanwhile, which takes 60 ms."""
    random = np.random.default_rng(5)
    prompts = _some_long(4_000)
    stalls = np.where(random.random(SIZE) < 0.12, 4_000 * random.uniform(0.6, 1.4, SIZE), 0.0)
    prefill = [20 + tokens / 100 for tokens in prompts]
    numbers = {
        "input_tokens": prompts,
        "output_tokens": [100.0] * SIZE,
        "time_to_first_token": [1e6 * each for each in prefill],
        "chunk_gap_median": [12e6] * SIZE,
        "stalled": (1e6 * stalls).tolist(),
    }
    segments = {"prefill": prefill, "decode": (1_200 + stalls).tolist()}
    starts = poisson(seed=5, mean_ms=300)
    assert cause_of(segments, starts=starts, numbers=numbers) == "random_stalls"


def test_reasoning_in_the_stream_is_a_part_of_the_answer() -> None:
    """Its tokens come after the first one, so the time of decode follows them."""
    reasoning = [
        each * number
        for each, number in zip(in_tail(1, 10), 100 + np.arange(SIZE) % 7, strict=True)
    ]
    segments = {"prefill": [50.0] * SIZE, "decode": [20 * (100 + each) for each in reasoning]}
    numbers = {
        "output_tokens": [100 + each for each in reasoning],
        "reasoning_tokens": reasoning,
    }
    assert cause_of(segments, numbers=numbers) == "output_length"
