"""
What leads: the segment that makes slow requests slower, or the one that makes all of them slow.

A diagnosis explains why slow requests are slower than typical ones, if they are much slower. Work
that a request needs, as decode, is then no cause if typical requests have as much of it. But a
delay that no request should have can be the larger one to remove, although all requests have it:
a long path, a stage, or prompts of thousands of tokens.

A calibration at concurrency 1 counts as queue what a busy server needs longer for a prompt. If all
prompts are long, such a queue consists of other requests' prompts, and the prompts lead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from latspan._model.segments import SegmentName
from latspan._study.diagnose._attribution import Attribution, Ranking
from latspan._study.diagnose._decode_rules import is_slow_pace
from latspan._study.diagnose._facts import Facts
from latspan._study.diagnose._server_rules import is_long_prefill, queue_of_prompts

_WORK: Final[Mapping[str, Callable[[Facts], bool]]] = {
    SegmentName.DECODE: is_slow_pace,
    SegmentName.PREFILL: is_long_prefill,
    SegmentName.REASONING: lambda facts: False,  # noqa: ARG005 - any length may be wanted
    SegmentName.SERVER_WAIT: lambda facts: facts.reports_queue,
}
"""
Segments that every request needs, and whether a recording shows that they are too long.

A wait for a server that reports its queue is in front of it, where no request should wait.
"""


_DELAY_SHARE: Final = 0.2
"""Minimum share of a delay in the time of slow requests."""
_RARE: Final = 0.1
"""Maximum mean of a delay in typical requests, as a fraction of its mean in slow ones."""
_MIN_EXPLAINED: Final = 0.5
"""Minimum fraction of the difference that a delay explains, as the low end of its interval."""


def is_chained_work(facts: Facts) -> bool:
    """
    Return whether the leading segment is work that several calls of a request need.

    Each of the calls may be as quick as it can be: their number is what takes the time. If slow
    requests make as many calls as typical ones, it explains only what both have: that has to be
    more than the difference.
    """
    if facts.attribution.by_excess and facts.leader.typical_ns < facts.leader.excess_ns:
        return False
    is_fault = _WORK.get(facts.leader.name)
    place = facts.place
    if place is None or place.label or place.count < _SEVERAL:
        return False
    of_each = Facts(place.table, facts.attribution, facts.calibration, facts.stable_tokens)
    return is_fault is not None and not is_fault(of_each)


_SEVERAL: Final = 2
"""Mean number of calls with the leading segment from which they are a chain."""


def leading(facts: Facts) -> Attribution:
    """Return the attribution with the ranking that explains the percentile."""
    attribution = facts.attribution
    prompts = queue_of_prompts(facts)
    if prompts is not None:
        return replace(attribution, by_excess=False, of_time=Ranking(prompts, None, 0.0))
    if not attribution.by_excess:
        return replace(attribution, by_excess=_has_a_delay(attribution))
    largest, grown = attribution.of_time.leader, attribution.of_excess.leader
    if largest.name == grown.name or largest.mean_ns < grown.excess_ns:
        return attribution
    is_fault = _WORK.get(largest.name)
    if is_fault is not None and not is_fault(facts):
        return attribution
    return replace(attribution, by_excess=False)


def _has_a_delay(attribution: Attribution) -> bool:
    """
    Return whether slow requests have a delay that typical ones do not have.

    Slow requests then differ from typical ones although they take less than 1.5 times as long.
    """
    delay = attribution.of_excess.leader
    return (
        len(attribution.typical) > 0
        and delay.share >= _DELAY_SHARE
        and delay.typical_ns <= delay.mean_ns * _RARE
        and delay.grown_low >= _MIN_EXPLAINED
    )
