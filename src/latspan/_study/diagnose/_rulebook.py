"""
The rules, and the order in which they are tried.

Rules on all segments come first: a cold start or a slow replica makes some segment long, but that
segment is not the cause. After them, one rule explains the leading
segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan._drawing import percent
from latspan._metrics import FIRST_TOKENS, OF_PACE
from latspan._segments import STAGE_KINDS, SegmentName, Stage
from latspan._study.diagnose import _client_rules as client
from latspan._study.diagnose import _decode_rules as decoding
from latspan._study.diagnose import _server_rules as server
from latspan._study.diagnose._facts import SIMILAR, Facts, SlowGroup
from latspan._study.diagnose._finding import Finding, milliseconds, times
from latspan._study.stats import hypergeometric_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["explain", "unreliable"]

Rule = Callable[[Facts], Finding | None]


def _pool(facts: Facts) -> Finding | None:
    """Return the finding on used connections, perhaps by requests that wait in the server."""
    behind = server.behind_the_pool(facts)
    return client.client_pool(facts) if behind is None else behind


def _prefill(facts: Facts) -> Finding | None:
    """Return the finding on prefill, perhaps that of a server that pauses."""
    found = server.prefill(facts)
    return found if found.cause != "slow_prefill" else decoding.pausing(facts) or found


def _wait(facts: Facts) -> Finding | None:
    """Return the finding on a wait for the server, or in front of one that reports its queue."""
    if facts.reports_queue:
        return client.network(facts)
    found = server.server_wait(facts)
    return found if found.cause != "server_wait" else decoding.pausing(facts) or found


_BY_SEGMENT: Final[dict[str, Rule]] = {
    SegmentName.DISPATCH_LAG: client.generator,
    SegmentName.EVENT_LOOP: client.blocked_event_loop,
    SegmentName.POOL_WAIT: _pool,
    SegmentName.CONNECT: client.connections,
    SegmentName.SEND: client.network,
    SegmentName.NETWORK: client.network,
    SegmentName.GATEWAY: client.gateway,
    SegmentName.RETRY: client.retries,
    SegmentName.CALL: client.call_chain,
    SegmentName.CONSUMER: client.slow_consumer,
    SegmentName.POSTPROCESS: client.postprocessing,
    SegmentName.STREAM_CLOSE: client.postprocessing,
    SegmentName.MODEL_LOAD: server.loading,
    SegmentName.QUEUE: server.queue,
    SegmentName.PREFILL: _prefill,
    SegmentName.SERVER_WAIT: _wait,
    SegmentName.REASONING: server.reasoning,
    SegmentName.DECODE: decoding.decode,
}

_BEHIND_A_BUFFER: Final = frozenset(
    {
        *(SegmentName.SERVER_WAIT, SegmentName.NETWORK),
        *(SegmentName.QUEUE, SegmentName.PREFILL, SegmentName.DECODE),
    }
)
"""Segments in which a stream that is held back appears before its first token."""

_IN_MODEL_SERVER: Final = {
    Stage.QUEUE: server.queue,
    Stage.MODEL_LOAD: server.loading,
    Stage.PREFILL: server.prefill,
    Stage.DECODE: decoding.decode,
}

_COLD: Final = 3.0
"""Ratio of the first requests to the others from which a start is cold."""

_FIRST: Final = 5
_IDLE_NS: Final = 30e9
_IDLE_QUANTILES: Final = (0.0, 0.5, 0.75, 0.9)
"""Quantiles of the idle times from which a server may be cold."""

_MIN_IDLE: Final = 6
_MIN_STARTS: Final = 3
_TWICE: Final = 2.0
_MOSTLY: Final = 0.5
_CHANCE: Final = 0.001
"""Probability below which slow starts are no chance; several lengths of idle times are tried."""

_STARTS: Final = 0.7
"""Fraction of the starts after an idle time that are slow, if the length of the time is a guess."""

_EARLY: Final = 0.2
"""Fraction of the requests that may be slow because the system has just started."""

_COLD_AT_FIRST: Final = frozenset(
    {
        *(SegmentName.CONNECT, SegmentName.PREPARE, SegmentName.MODEL_LOAD),
        *(SegmentName.SERVER_WAIT, SegmentName.PREFILL, SegmentName.DECODE),
    }
)
"""Segments that are longer in a system that has just started; a queue has other causes."""

_PLACES: Final = (
    "server",
    "replica",
    "backend",
    "host",
    "pod",
    "node",
    "instance",
    "zone",
    "region",
)
"""Parts of the names of attributes whose values requests need not use."""

_CAPACITY: Final = frozenset(
    {SegmentName.QUEUE, SegmentName.SERVER_WAIT, SegmentName.GATEWAY, SegmentName.POOL_WAIT}
)


def explain(facts: Facts) -> Finding | None:
    """Return the finding of the first rule that matches; ``None`` if the segment has no rule."""
    for rule in (_cold_start, _slow_group):
        finding = rule(facts)
        if finding is not None:
            return finding
    name = facts.leader.name
    until_first = facts.table.goal.metric in FIRST_TOKENS
    if name in _BEHIND_A_BUFFER and until_first and decoding.is_buffered(facts):
        # A server generates tokens one by one, so the first one has waited for the others.
        return decoding.buffered(facts)
    if name == SegmentName.UNATTRIBUTED:
        return None
    kind = facts.table.kinds.get(name, name)
    rule = _BY_SEGMENT.get(name)
    if rule is None and kind in STAGE_KINDS:
        rule = _IN_MODEL_SERVER.get(Stage(kind))
    return (rule or client.own_code)(facts)


def unreliable(failed: int, units: int, percentile: float) -> Finding | None:
    """Return the finding if so many units failed that the percentile falls on a failed one."""
    if not units or failed / units <= 1 - percentile / 100:
        return None
    return Finding(
        "unreliable_service",
        "so many requests fail that the percentile falls on a failed one",
        "find out why requests fail: timeouts, capacity, admission control",
        (f"{failed:,} of {units:,} requests failed ({percent(failed / units)})",),
        "failures belong to a few requests that are invalid themselves",
        (),
    )


def _cold_start(facts: Facts) -> Finding | None:
    """
    Return the finding if the tail consists of the first requests after a start or idle time.

    Most starts must be slow: in sparse traffic, some slow requests happen to be the first ones. How
    long a server must be idle to be cold is not known, so several lengths are tried.
    """
    if facts.table.goal.metric in OF_PACE:
        # A stream that has begun comes from a system that has started.
        return None
    idle_ns = _idle_before(facts)
    some = idle_ns[idle_ns > 0]
    lengths = [_IDLE_NS]
    if len(some) >= _MIN_IDLE:
        lengths += [float(each) for each in np.quantile(some, _IDLE_QUANTILES)]
    for length_ns in lengths:
        after_idle = np.flatnonzero(idle_ns >= length_ns)
        begins = np.union1d([0], after_idle)
        guessed = length_ns < _IDLE_NS
        found = _slow_first(facts, begins, guessed=guessed)
        others = (idle_ns > 0) & (idle_ns < length_ns)
        if found is None or (guessed and len(after_idle) < _MIN_STARTS):
            continue
        slow, finding = found
        if guessed and float(slow[after_idle].mean()) < _STARTS:
            continue
        seldom = float(slow[others].mean()) if others.any() else 0.0
        if not seldom or float(slow[begins].mean()) > _TWICE * seldom:
            return finding
    if facts.leader.name not in _COLD_AT_FIRST:
        return None
    early = np.arange(len(facts.table)) < len(facts.table) * _EARLY
    found = _of_first(facts, early)
    return None if found is None or not found[0][:_FIRST].any() else found[1]


def _idle_before(facts: Facts) -> NDArray[np.float64]:
    """Return the time without any request in flight before each one; 0 if there was none."""
    start = facts.table.start_ns.astype(np.float64)
    ends = np.maximum.accumulate(start + facts.table.duration_ns)
    idle = np.zeros(len(start))
    idle[1:] = np.clip(start[1:] - ends[:-1], 0, None)
    return idle


def _slow_first(
    facts: Facts, begins: NDArray[np.int64], *, guessed: bool
) -> tuple[NDArray[np.bool_], Finding] | None:
    """
    Return which of the first requests after idle times are slow, if most starts are.

    If the length of the idle times is guessed, the starts must be slow more often than chance would
    have it, given how many of the other requests are.
    """
    least = 1 if guessed else _FIRST
    start_ns, size = facts.table.start_ns, len(facts.table)
    # A request that starts while the first one still runs waits for the same thing.
    ready_ns = start_ns[begins] + np.nan_to_num(facts.table.value_ns[begins])
    ends = np.maximum(np.searchsorted(start_ns, ready_ns), begins + least)
    changes = np.bincount(begins, minlength=size + 1)
    changes -= np.bincount(np.minimum(ends, size), minlength=size + 1)
    first = np.cumsum(changes[:size]) > 0
    found = _of_first(facts, first)
    if found is None or found[0][begins].mean() < _MOSTLY:
        return None
    if not guessed:
        return found
    rest, starts = facts.table.value_ns[~first], int(found[0][begins].sum())
    as_slow = int((rest > _COLD * float(np.nanmedian(rest))).sum())
    chance = hypergeometric_tail(starts, len(rest) + len(begins), as_slow + starts, len(begins))
    return found if chance <= _CHANCE else None


def _of_first(facts: Facts, first: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Finding] | None:
    """Return the finding if some first requests account for most of the excess of the tail."""
    values, tail = facts.table.value_ns, facts.attribution.tail
    warm = float(np.nanmedian(values[~first])) if (~first).any() else float("nan")
    slow = first & (values > _COLD * warm)
    # The band holds more units than were cold, so their share of its excess decides.
    excess = np.clip(np.nan_to_num(values[tail] - warm), 0, None)
    share = float(excess[slow[tail]].sum() / excess.sum()) if excess.sum() else 0.0
    if slow.sum() == 0 or share < _MOSTLY or _are_larger(facts, slow):
        return None
    return slow, Finding(
        "cold_start",
        "the first requests after a start or an idle time are slow",
        "warm up before users arrive: connections, model, caches",
        (
            (
                f"{int(slow.sum())} of the first requests take"
                f" {milliseconds(float(np.median(values[slow])))}, later ones {milliseconds(warm)}"
            ),
            f"they account for {percent(share)} of the time beyond that of warm requests",
        ),
        "requests in the middle of a busy time are as slow",
        (facts.leader.name,),
    )


def _are_larger(facts: Facts, inside: NDArray[np.bool_]) -> bool:
    """Return whether some units have longer prompts or answers than the others."""
    for name in ("input_tokens", "output_tokens"):
        values = facts.table.number(name)
        own = values[inside & ~np.isnan(values)]
        others = values[~inside & ~np.isnan(values)]
        if len(own) and len(others) and np.median(own) > SIMILAR * np.median(others):
            return True
    return False


def _slow_group(facts: Facts) -> Finding | None:
    """Return the finding if most of the tail has one route, model, replica or tenant."""
    group = facts.slow_group
    if group is None or group.median_ns < SIMILAR * group.others_ns or not facts.saves(group):
        return None
    if _are_larger(facts, facts.members(group)):
        # The rule of the segment explains that.
        return None
    segment, own, others = facts.slower_in(group)
    return Finding(
        "slow_group",
        f"requests of one {group.attribute} are slow: '{group.value}', because of {segment}"
        f" ({milliseconds(own)} against {milliseconds(others)})",
        _group_lever(group, segment),
        (
            (
                f"'{group.value}' has {percent(group.of_all)} of the requests and"
                f" {percent(group.of_tail)} of the slow ones"
            ),
            (
                f"its median is {milliseconds(group.median_ns)},"
                f" {times(group.median_ns / max(group.others_ns, 1.0))} that of the others;"
                " its prompts and answers are not longer"
            ),
        ),
        f"the same requests are as slow elsewhere as at '{group.value}'",
        (segment,),
    )


def _group_lever(group: SlowGroup, segment: str) -> str:
    """Return what to change about a slow group: a place can be left, and a tenant cannot."""
    value = group.value
    if any(place in group.attribute.lower() for place in _PLACES):
        return f"take '{value}' out of the rotation, compare, and look at {segment} there"
    if segment in _CAPACITY:
        return f"give '{value}' capacity of its own, and look at {segment} of its requests"
    return f"shorten {segment} for '{value}': compare what it does there with the others"
