"""
The rules, and the order in which they are tried.

Rules on all segments come first: a cold start or a slow replica makes some segment long, but that
segment is not the cause. After them, one rule explains the leading segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from latspan._model.metrics import FIRST_TOKENS
from latspan._model.segments import STAGE_KINDS, SegmentName, Stage, host_of_exchange
from latspan._model.text import percent
from latspan._study.diagnose import _client_rules as client
from latspan._study.diagnose import _decode_rules as decoding
from latspan._study.diagnose import _server_rules as server
from latspan._study.diagnose._cause import Cause
from latspan._study.diagnose._facts import Facts
from latspan._study.diagnose._finding import Finding
from latspan._study.diagnose._group_rules import overtaken_group, slow_group
from latspan._study.diagnose._leading import is_chained_work
from latspan._study.diagnose._start_rules import cold_start

Rule = Callable[[Facts], Finding | None]


def _pool(facts: Facts) -> Finding | None:
    """Return the finding on used connections, perhaps by requests that wait in the server."""
    behind = server.behind_the_pool(facts)
    return client.client_pool(facts) if behind is None else behind


def _prefill(facts: Facts) -> Finding | None:
    """Return the finding on prefill, perhaps that of a server that pauses."""
    found = server.prefill(facts)
    return found if found.cause != Cause.SLOW_PREFILL else decoding.pausing(facts) or found


def _wait(facts: Facts) -> Finding | None:
    """Return the finding on a wait for the server, or in front of one that reports its queue."""
    if facts.reports_queue:
        return client.network(facts)
    found = server.server_wait(facts)
    return found if found.cause != Cause.SERVER_WAIT else decoding.pausing(facts) or found


_BY_SEGMENT: Final[dict[str, Rule]] = {
    SegmentName.DISPATCH_LAG: client.generator,
    SegmentName.APPLICATION: client.application,
    SegmentName.EVENT_LOOP: client.blocked_event_loop,
    SegmentName.POOL_WAIT: _pool,
    SegmentName.CONNECT: client.connections,
    SegmentName.SEND: client.network,
    SegmentName.NETWORK: client.network,
    SegmentName.GATEWAY: client.gateway,
    SegmentName.RETRY: client.retries,
    # As releases before 0.1 recorded all calls but the last one of a request.
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


def explain(facts: Facts) -> Finding | None:
    """Return the finding of the first rule that matches; ``None`` if the segment has no rule."""
    for of_all in (slow_group, cold_start, overtaken_group, client.many_steps):
        finding = of_all(facts)
        if finding is not None:
            return finding
    if is_chained_work(facts):
        return client.call_chain(facts)
    name = facts.leader.name
    until_first = facts.table.goal.metric in FIRST_TOKENS
    if name in _BEHIND_A_BUFFER and until_first and decoding.is_buffered(facts):
        # A server generates tokens one by one, so the first one has waited for the others.
        return decoding.buffered(facts)
    if name == SegmentName.UNATTRIBUTED:
        return None
    kind = facts.table.kinds.get(name, name)
    rule = _BY_SEGMENT.get(name)
    if rule is None and host_of_exchange(name) is not None:
        rule = client.dependency
    elif rule is None and kind in STAGE_KINDS:
        rule = _IN_MODEL_SERVER.get(Stage(kind))
    return (rule or client.own_code)(facts)


def unreliable(failed: int, units: int, percentile: float) -> Finding | None:
    """Return the finding if so many units failed that the percentile falls on a failed one."""
    if not units or failed / units <= 1 - percentile / 100:
        return None
    return Finding(
        Cause.UNRELIABLE_SERVICE,
        "so many requests fail that the percentile falls on a failed one",
        "find out why requests fail: timeouts, capacity, admission control",
        (f"{failed:,} of {units:,} requests failed ({percent(failed / units)})",),
        "failures belong to a few requests that are invalid themselves",
        (),
    )
