"""Rules on time in the model server before the first visible token: queue, prefill, reasoning."""

from __future__ import annotations

from math import isnan
from typing import Final

import numpy as np

from latspan._drawing import percent
from latspan._segments import SegmentName
from latspan._study.diagnose._facts import LONGER, Facts
from latspan._study.diagnose._finding import Finding, kv_pressure, milliseconds, times, waiting
from latspan._study.diagnose._line import CORRELATED

__all__ = ["behind_the_pool", "loading", "prefill", "queue", "reasoning", "server_wait"]

_BEHIND_POOL: Final = 0.25
"""Share of the wait in the server from which a wait for a connection is its consequence."""

_LONG_PROMPT: Final = 2_000
"""Number of tokens from which a prompt is long, regardless of the others."""

_BURSTY: Final = 3.0
"""Variance of arrivals, relative to independent ones, from which they count as bursts."""

_NEVER_EMPTY: Final = 0.2
"""Wait of the quickest tenth, relative to the tail's, from which a queue is never empty."""

_ESTIMATED: Final = 0.5
"""Fraction of a segment's time from which it is an estimate."""

_LEAST_ALONE: Final = 10
"""Least number of requests alone at the server that show the time of the network path."""

_WAY: Final = 0.5
"""Wait of requests alone at the server, relative to the tail's, that shows a long path."""

_STABLE: Final = 0.3
"""Fraction of a prompt that must be stable for a prefix cache to matter."""


def loading(facts: Facts) -> Finding | None:
    """Return the finding that the server loads the model for a request."""
    return Finding(
        "cold_start",
        "the server loads the model while requests wait",
        "keep the model loaded: send a request before users do, and raise the idle time",
        (f"loading the model takes {milliseconds(facts.leader.mean_ns)} per slow request",),
        "the model was loaded before the requests",
        (SegmentName.MODEL_LOAD,),
    )


def queue(facts: Facts) -> Finding | None:
    """Return the finding on requests that wait in the server before it works on them."""
    leader = facts.leader
    full = kv_pressure(facts)
    busy = facts.tail(facts.in_flight), facts.typical(facts.in_flight)
    evidence = [
        (
            f"slow requests wait {milliseconds(leader.mean_ns)} in the queue, typical ones"
            f" {milliseconds(leader.typical_ns)}"
        ),
    ]
    if busy[0] >= busy[1]:
        # Fewer requests during slow ones are not evidence of load.
        evidence.append(
            f"{busy[0]:.0f} other requests are in flight during slow ones, {busy[1]:.0f} during"
            " typical ones"
        )
    evidence += waiting(facts)
    if full:
        evidence += full
        return Finding(
            "kv_cache",
            "requests wait because the KV cache is full",
            "shorten contexts, quantize the KV cache or add memory",
            tuple(evidence),
            "slots are full too, so more memory would not shorten the queue",
            (SegmentName.QUEUE,),
        )
    way = _is_the_way(facts)
    if way is not None:
        return way
    waits = facts.table.segment(SegmentName.QUEUE)
    never_empty = float(np.quantile(waits, 0.1)) >= _NEVER_EMPTY * leader.mean_ns
    bursty = facts.burstiness >= _BURSTY
    if bursty:
        evidence.append(f"arrivals vary {times(facts.burstiness)} as much as independent ones")
    waited_for_connections = facts.attribution.share(SegmentName.POOL_WAIT) > 0
    if facts.is_spread(leader) and (never_empty or not bursty):
        return Finding(
            "under_capacity",
            "requests wait in the server's queue, typical ones too",
            "add capacity (slots, replicas) or lower the load",
            tuple(evidence),
            "the queue stays at half the load",
            (SegmentName.QUEUE, SegmentName.POOL_WAIT)
            if waited_for_connections
            else (SegmentName.QUEUE,),
        )
    return Finding(
        "bursts",
        "bursts of requests wait in the server's queue",
        "smooth arrivals: admit fewer requests at a time, or batch adaptively",
        tuple(evidence),
        "typical requests wait as long as slow ones",
        (SegmentName.QUEUE,),
    )


def _is_the_way(facts: Facts) -> Finding | None:
    """
    Return the finding if a wait that was estimated as queue is the network path to the server.

    Some servers report no queue, and send the headers of a response when its work begins. The wait
    for the headers then includes the path there and back. A request that is alone at the server
    does not queue, and the path takes as long for every request, the quickest included.
    """
    leader, alone = facts.leader, facts.alone
    if facts.calibration is not None or leader.uncertain <= _ESTIMATED:
        return None
    waits = facts.table.segment(SegmentName.QUEUE)[alone]
    if len(waits) < _LEAST_ALONE:
        return None
    quickest = float(np.quantile(waits, 0.1))
    if quickest < _WAY * leader.mean_ns:
        return None
    return Finding(
        "network_distance",
        "the path to the server is long, or a gateway that reports no time holds requests",
        "move the client to the server's region, or bypass the gateway, and compare",
        (
            (
                f"slow requests wait {milliseconds(leader.mean_ns)} for the headers of the"
                f" response, typical ones {milliseconds(leader.typical_ns)}"
            ),
            (
                f"{len(waits):,} requests were alone at the server, and nine in ten of them wait"
                f" {milliseconds(quickest)} or more, which is not queueing"
            ),
            *waiting(facts),
        ),
        "a request from the server's own host waits as long, or other clients use the server",
        (SegmentName.QUEUE, SegmentName.NETWORK),
    )


def behind_the_pool(facts: Facts) -> Finding | None:
    """
    Return the finding if connections are in use because requests wait in the server.

    More connections would only move the wait to the server.
    """
    queued = facts.attribution.share(SegmentName.QUEUE)
    waiting = facts.attribution.share(SegmentName.SERVER_WAIT)
    if max(queued, waiting) < _BEHIND_POOL:
        return None
    name = SegmentName.QUEUE if queued >= waiting else SegmentName.SERVER_WAIT
    wait_ns = facts.tail(facts.table.segment(name))
    evidence = (
        f"slow requests wait {milliseconds(facts.leader.mean_ns)} for a connection",
        f"requests that have one wait {milliseconds(wait_ns)} for the server",
    )
    segments = (SegmentName.POOL_WAIT, name)
    if name is SegmentName.QUEUE:
        return Finding(
            "under_capacity",
            "requests wait in the server's queue, and others wait for their connections",
            "add capacity (slots, replicas) or lower the load",
            evidence,
            "the queue stays at half the load",
            segments,
        )
    return Finding(
        "server_wait",
        "requests wait for the server, and others wait for their connections",
        "measure at concurrency 1 and pass it with --calibration, or read the server's metrics",
        evidence,
        "the server reports short times",
        segments,
    )


def prefill(facts: Facts) -> Finding | None:
    """Return the finding on the time in which the server processes the prompt."""
    tokens = facts.tail(facts.table.number("input_tokens"))
    uncached = facts.tail(facts.uncached_tokens)
    evidence = [f"prefill takes {milliseconds(facts.leader.mean_ns)} per slow request"]
    if not isnan(tokens):
        slow, typical = facts.means(facts.table.number("input_tokens"))
        evidence.append(
            f"slow requests have {slow:,.0f} prompt tokens on average, typical ones {typical:,.0f}"
        )
    stable = facts.stable_tokens
    cached = 0 if isnan(facts.cached_share) else facts.cached_share
    if stable and tokens and stable >= _STABLE * tokens and uncached > tokens - stable / 2:
        return Finding(
            "reprocessed_prefix",
            "the server processes the part that is the same in all prompts again",
            "put the stable part first, and cache the prefix",
            (
                *evidence,
                (
                    f"{stable:,.0f} tokens are the same in all prompts;"
                    f" {percent(cached)} of the prompt"
                    " tokens come from a cache"
                ),
            ),
            "the share of cached tokens is high and prefill remains",
            (SegmentName.PREFILL,),
        )
    if isnan(uncached) and facts.calibration is None:
        return Finding(
            "slow_prefill",
            "the server needs long before the first token; whether prompts are long is not known",
            "record token counts, which distinguish long prompts from a slow server:"
            " LATSPAN_REQUEST_STREAM_USAGE=true",
            (*evidence, "the recording has no number of prompt tokens"),
            "prefill grows with the length of prompts",
            (SegmentName.PREFILL,),
        )
    longer = uncached / max(facts.typical(facts.uncached_tokens), 1.0)
    line = facts.line(facts.uncached_tokens, facts.table.segment(SegmentName.PREFILL))
    grows = line is not None and line.correlation >= CORRELATED
    if line is not None and grows:
        evidence.append(f"prefill grows by {line.slope / 1e3:.0f} µs per uncached prompt token")
    risen = line is not None and facts.is_slower_than_calibrated(line)
    if facts.calibration is not None:
        evidence.append(
            f"at concurrency 1 it was {facts.calibration.per_token_ns / 1e3:.0f} µs per token"
        )
    if not risen and (longer >= LONGER or grows or uncached >= _LONG_PROMPT):
        return Finding(
            "long_context",
            "the server processes long prompts",
            "trim or compress the context, for example fewer passages",
            tuple(evidence),
            "short prompts have as long a prefill",
            (SegmentName.PREFILL,),
        )
    return Finding(
        "slow_prefill",
        "the server takes long per prompt token",
        "check the device of the model, its clock rate, and the batch budget of prefill",
        tuple(evidence),
        "prefill grows with the length of prompts",
        (SegmentName.PREFILL,),
    )


def server_wait(facts: Facts) -> Finding | None:
    """Return the finding on a wait for the server that no evidence divides."""
    return Finding(
        "server_wait",
        "the server works or lets requests wait; nothing separates queue and prefill",
        "measure at concurrency 1 and pass it with --calibration, or read the server's metrics",
        (
            f"slow requests wait {milliseconds(facts.leader.mean_ns)} for the server",
            *waiting(facts),
        ),
        "the server reports its times",
        (SegmentName.SERVER_WAIT,),
    )


def reasoning(facts: Facts) -> Finding | None:
    """Return the finding that the model reasons before it answers."""
    tokens = facts.tail(facts.table.number("reasoning_tokens"))
    evidence = [f"reasoning takes {milliseconds(facts.leader.mean_ns)} per slow request"]
    if not isnan(tokens):
        evidence.append(f"slow requests have {tokens:,.0f} reasoning tokens")
    return Finding(
        "reasoning",
        "the model reasons before it answers",
        "lower the reasoning effort, and show progress meanwhile",
        tuple(evidence),
        "the first visible token follows the first token at once",
        (SegmentName.REASONING,),
    )
