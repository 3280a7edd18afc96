"""
The rules, and the order in which they are tried.

Rules on all segments come first: a cold start or a slow replica makes some segment long, but that
segment is not the cause. After them, one rule explains the leading
segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from latspan._drawing import percent
from latspan._segments import STAGE_KINDS, SegmentName, Stage
from latspan._study.diagnose import _client_rules as client
from latspan._study.diagnose import _decode_rules as decoding
from latspan._study.diagnose import _server_rules as server
from latspan._study.diagnose._facts import Facts
from latspan._study.diagnose._finding import Finding, milliseconds, times

__all__ = ["MOST_UNEXPLAINED", "explain", "unreliable"]

Rule = Callable[[Facts], Finding | None]

MOST_UNEXPLAINED: Final = 0.25
"""Fraction of unattributed time in the tail band above which no cause is named."""


def _pool(facts: Facts) -> Finding | None:
    """Return the finding on used connections, perhaps by requests that wait in the server."""
    behind = server.behind_the_pool(facts)
    return client.client_pool(facts) if behind is None else behind


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
    SegmentName.PREFILL: server.prefill,
    SegmentName.SERVER_WAIT: server.server_wait,
    SegmentName.REASONING: server.reasoning,
    SegmentName.DECODE: decoding.decode,
}

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
_SIMILAR: Final = 1.3


def explain(facts: Facts) -> Finding | None:
    """Return the finding of the first rule that matches; ``None`` if the segment has no rule."""
    for rule in (_cold_start, _slow_group):
        finding = rule(facts)
        if finding is not None:
            return finding
    name = facts.leader.name
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
    """Return the finding if the tail consists of the first requests after a start or idle time."""
    table, tail = facts.table, facts.attribution.tail
    gaps = np.diff(table.start_ns.astype(np.float64))
    begins = [0, *(np.flatnonzero(gaps > _IDLE_NS) + 1)]
    first = np.zeros(len(table), dtype=bool)
    values = table.value_ns
    for begin in begins:
        # A request that starts while the first one still runs waits for the same thing.
        ready = table.start_ns[begin] + np.nan_to_num(values[begin])
        until = int((table.start_ns < ready).sum())
        first[begin : max(begin + _FIRST, until)] = True
    warm = float(np.nanmedian(values[~first])) if (~first).any() else float("nan")
    slow = first & (values > _COLD * warm)
    # The band holds more units than were cold, so their share of its excess decides.
    excess = np.clip(np.nan_to_num(values[tail] - warm), 0, None)
    share = float(excess[slow[tail]].sum() / excess.sum()) if excess.sum() else 0.0
    if slow.sum() == 0 or share < 0.5:
        return None
    return Finding(
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


def _slow_group(facts: Facts) -> Finding | None:
    """Return the finding if most of the tail has one route, model, replica or tenant."""
    group = facts.slow_group
    if group is None or group.median_ns < _SIMILAR * group.others_ns or not facts.saves(group):
        return None
    inside = facts.members(group)
    for name in ("input_tokens", "output_tokens"):
        values = facts.table.number(name)
        own = values[inside & ~np.isnan(values)]
        others = values[~inside & ~np.isnan(values)]
        if len(own) and len(others) and np.median(own) > _SIMILAR * np.median(others):
            # Its requests are larger, and the rule of the segment explains that.
            return None
    return Finding(
        "slow_group",
        f"requests of one {group.attribute} are slow: '{group.value}'",
        f"take '{group.value}' out, or isolate it, and compare",
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
        (facts.leader.name,),
    )
