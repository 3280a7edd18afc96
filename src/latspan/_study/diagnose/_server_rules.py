"""Rules on time in the model server: queue, prefill, reasoning and decode."""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan._drawing import percent
from latspan._segments import SegmentName
from latspan._study.diagnose._facts import Facts
from latspan._study.diagnose._finding import Finding, milliseconds, times

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["behind_the_pool", "decode", "loading", "prefill", "queue", "reasoning", "server_wait"]

_KV_FULL: Final = 0.9
_LONGER: Final = 1.5
"""Ratio of tail to typical from which a length explains a tail."""

_MUCH_LONGER: Final = 2.2
"""
The same for answers. Slow requests are long ones in any recording, so usual variation does not
count: with a lognormal length of sigma 0.4 the slowest tenth has 1.9 times the median.
"""

_BEHIND_POOL: Final = 0.25
"""Share of the wait in the server from which a wait for a connection is its consequence."""

_LONG_PROMPT: Final = 2_000
"""Number of tokens from which a prompt is long whatever the others are."""

_BURSTY: Final = 3.0
"""Variance of arrivals, as a multiple of independent ones, from which they come in bursts."""

_NEVER_EMPTY: Final = 0.2
"""Fraction of the tail's wait that even the quickest tenth waits if a queue is never empty."""

_STABLE: Final = 0.3
"""Fraction of a prompt that must be stable for a prefix cache to matter."""

_LOADED: Final = 1.3
"""Ratio of loaded to unloaded time per token from which batching explains it."""

_COINCIDE: Final = 0.2
"""Rank correlation of stalls with long prompts of others from which these cause them."""

_LOAD_EXPLAINS: Final = 0.5
"""Fraction of the excess per token that must follow from the load."""

_HEAVY: Final = 3.0
"""Multiple of the median prompt from which a prompt delays the streams of others."""

_CORRELATED: Final = 0.3
_STALL_EXPLAINS: Final = 0.5
"""Fraction of the excess in decode that the longest gaps must hold."""


def loading(facts: Facts) -> Finding | None:
    """The server loads the model for a request."""
    return Finding(
        "cold_start",
        "the server loads the model while requests wait",
        "keep the model loaded: send a request before users do, and raise the idle time",
        (f"loading the model takes {milliseconds(facts.leader.mean_ns)} per slow request",),
        "the model was loaded before the requests",
        (SegmentName.MODEL_LOAD,),
    )


def queue(facts: Facts) -> Finding | None:
    """Requests wait in the server before it works on them."""
    leader = facts.leader
    kv = facts.tail(facts.table.number("kv_usage"))
    busy = facts.tail(facts.in_flight), facts.typical(facts.in_flight)
    evidence = [
        (
            f"slow requests wait {milliseconds(leader.mean_ns)} in the queue, typical ones"
            f" {milliseconds(leader.typical_ns)}"
        ),
        (
            f"{busy[0]:.0f} other requests are in flight during slow ones, {busy[1]:.0f} during"
            " typical ones"
        ),
    ]
    if kv >= _KV_FULL:
        evidence.append(f"the KV cache is {percent(kv)} full during slow requests")
        return Finding(
            "kv_cache",
            "requests wait because the KV cache is full",
            "shorten contexts, quantize the KV cache or add memory",
            tuple(evidence),
            "slots are full too, so more memory would not shorten the queue",
            (SegmentName.QUEUE,),
        )
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
            "requests wait in the server's queue, and the others for their connections",
            "add capacity (slots, replicas) or lower the load",
            evidence,
            "the queue stays at half the load",
            segments,
        )
    return Finding(
        "server_wait",
        "requests wait for the server, and the others for their connections",
        "measure at concurrency 1 and pass it with --calibration, or read the server's metrics",
        evidence,
        "the server reports short times",
        segments,
    )


def prefill(facts: Facts) -> Finding | None:
    """The server processes the prompt."""
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
            "the server processes the same beginning of each prompt again",
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
    longer = uncached / max(facts.typical(facts.uncached_tokens), 1.0)
    line = facts.line(facts.uncached_tokens, facts.table.segment(SegmentName.PREFILL))
    grows = line is not None and line.correlation >= _CORRELATED
    if line is not None and grows:
        evidence.append(f"prefill grows by {line.slope / 1e3:.0f} µs per uncached prompt token")
    risen = line is not None and facts.is_slower_than_calibrated(line)
    if facts.calibration is not None:
        evidence.append(
            f"at concurrency 1 it was {facts.calibration.per_token_ns / 1e3:.0f} µs per token"
        )
    if not risen and (longer >= _LONGER or grows or uncached >= _LONG_PROMPT):
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
        "check placement, clocks and the batch budget of prefill",
        tuple(evidence),
        "prefill grows with the length of prompts",
        (SegmentName.PREFILL,),
    )


def server_wait(facts: Facts) -> Finding | None:
    """The wait for the server, of which no evidence knows the inside."""
    return Finding(
        "server_wait",
        "the server works or lets requests wait; nothing separates queue and prefill",
        "measure at concurrency 1 and pass it with --calibration, or read the server's metrics",
        (f"slow requests wait {milliseconds(facts.leader.mean_ns)} for the server",),
        "the server reports its times",
        (SegmentName.SERVER_WAIT,),
    )


def reasoning(facts: Facts) -> Finding | None:
    """The model reasons before it answers."""
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


def decode(facts: Facts) -> Finding | None:
    """The model writes the answer."""
    table = facts.table
    evidence = [f"decode takes {milliseconds(facts.leader.mean_ns)} per slow request"]
    if _is_buffered(facts):
        return _buffered(evidence)
    stalls = _stalls(facts)
    if stalls is not None:
        return stalls
    output = table.number("output_tokens")
    per_token = _per_token(facts)
    longer = facts.tail(output) / max(facts.typical(output), 1.0)
    slower = facts.tail(per_token) / max(facts.typical(per_token), 1.0)
    if not isnan(longer):
        evidence.append(
            f"slow requests have {facts.tail(output):,.0f} output tokens, typical ones"
            f" {facts.typical(output):,.0f}"
        )
    if not isnan(slower):
        evidence.append(
            f"{milliseconds(facts.tail(per_token))} per token in slow requests,"
            f" {milliseconds(facts.typical(per_token))} in typical ones"
        )
    if longer >= _MUCH_LONGER and not slower > longer:
        return Finding(
            "output_length",
            "answers are long",
            "cap or shape the output",
            tuple(evidence),
            "slow requests have as many output tokens as typical ones",
            (SegmentName.DECODE,),
        )
    load = facts.in_flight_at_server
    line = facts.line(load, per_token)
    unloaded = _unloaded(facts, per_token)
    if line is not None and line.correlation >= _CORRELATED:
        busy = facts.tail(load)
        excess = facts.tail(per_token) - unloaded
        by_load = line.slope * (busy - _least_busy(facts))
        slow = facts.tail(per_token) >= _LOADED * unloaded > 0
        if slow and by_load >= _LOAD_EXPLAINS * excess:
            return Finding(
                "batch_contention",
                "decode slows down while other requests run",
                "cap the batch or the concurrency, or add a replica",
                (
                    *evidence,
                    (
                        f"a token takes {times(facts.tail(per_token) / unloaded)} as long with"
                        f" {busy:.0f} other requests at the server as without load"
                    ),
                ),
                "a token takes as long without other requests",
                (SegmentName.DECODE,),
            )
    if slower >= _LONGER:
        return Finding(
            "slow_decode",
            "some requests are decoded slowly, whatever the load",
            "profile the host: memory, garbage collection, preemption",
            tuple(evidence),
            "the time per token follows the load or the length",
            (SegmentName.DECODE,),
        )
    return Finding(
        "slow_model",
        "the model takes long per token",
        "quantize, use a smaller model, or decode speculatively",
        tuple(evidence),
        "the time per token depends on the load",
        (SegmentName.DECODE,),
    )


def _per_token(facts: Facts) -> NDArray[np.float64]:
    """Return the time per token, or per chunk where the number of tokens is unknown."""
    per_token = facts.table.number("time_per_output_token")
    if np.isfinite(per_token[facts.attribution.tail]).mean() >= 0.5:
        return per_token
    return facts.table.number("chunk_gap_median")


def _unloaded(facts: Facts, per_token: NDArray[np.float64]) -> float:
    """Return the time per token without load: calibrated, or of the least loaded tenth."""
    if facts.calibration is not None and not isnan(facts.calibration.tpot_ns):
        return facts.calibration.tpot_ns
    known = np.flatnonzero(~np.isnan(per_token))
    load = facts.in_flight_at_server
    least = known[np.argsort(load[known], kind="stable")[: max(10, len(known) // 10)]]
    return float(np.median(per_token[least])) if len(least) else nan


def _least_busy(facts: Facts) -> float:
    """Return the number of other units in flight during the least loaded tenth."""
    if facts.calibration is not None:
        return 0.0
    return float(np.quantile(facts.in_flight_at_server, 0.05))


def _is_buffered(facts: Facts) -> bool:
    buffered = facts.table.number("buffered")[facts.attribution.tail]
    return bool(np.nan_to_num(buffered).mean() >= 0.5)


def _buffered(evidence: list[str]) -> Finding:
    return Finding(
        "buffering",
        "a proxy holds the stream back and delivers it in bursts",
        "switch the proxy's response buffering off, and flush each event",
        (*evidence, "streams arrive in one burst although the server generates them steadily"),
        "chunks arrive one by one",
        (SegmentName.DECODE,),
    )


def _stalls(facts: Facts) -> Finding | None:
    """Return the finding on long gaps in otherwise even streams; ``None`` if there are none."""
    table, tail, typical = facts.table, facts.attribution.tail, facts.attribution.typical
    longest, usual = table.number("chunk_gap_max"), table.number("chunk_gap_median")
    stalled = np.nan_to_num(table.number("stalled"))
    decode_excess = facts.leader.excess_ns
    if not np.isfinite(usual[tail]).any() or decode_excess <= 0 or not len(typical):
        return None
    more = float(stalled[tail].mean() - stalled[typical].mean())
    even = facts.tail(usual) < _LONGER * facts.typical(usual)
    if not even or more < _STALL_EXPLAINS * decode_excess:
        return None
    evidence = (
        (
            f"stalls take {milliseconds(float(stalled[tail].mean()))} of slow requests,"
            f" {milliseconds(float(stalled[typical].mean()))} of typical ones"
        ),
        f"half of the slow requests have a gap of {milliseconds(facts.tail(longest))} or more",
        f"the other gaps are as usual: {milliseconds(facts.tail(usual))}",
    )
    paused = facts.tail(np.nan_to_num(table.number("gc_s")))
    if _meets_prefills(facts):
        return Finding(
            "prefill_interference",
            "streams stall while the server processes other requests' prompts",
            "process prompts in chunks, or separate long prompts",
            (*evidence, "long prompts of other requests begin during the stalled streams"),
            "streams stall without other requests' prompts",
            (SegmentName.DECODE,),
        )
    host = "the process collects garbage meanwhile" if paused > 0 else "they follow no load"
    return Finding(
        "random_stalls",
        "streams stall at random",
        "profile the server's host: memory, garbage collection, preemption",
        (*evidence, host),
        "stalls coincide with other requests",
        (SegmentName.DECODE,),
    )


def _meets_prefills(facts: Facts) -> bool:
    """Return whether streams stall more if other requests' long prompts are processed meanwhile."""
    table = facts.table
    work = table.segment(SegmentName.PREFILL, SegmentName.SERVER_WAIT)
    size = facts.uncached_tokens
    if not np.isfinite(size).any():
        # A stall of the server makes the waits of others long too, so tokens are better evidence.
        size = work
    start = table.start_ns.astype(np.float64)
    first = np.nan_to_num(table.number("time_to_first_token"), nan=0.0)
    begin = start + np.clip(first - work, 0, None)
    heavy = size >= _HEAVY * max(float(np.nanmedian(size)), 1.0)
    if heavy.sum() < 3:
        return False
    met = np.zeros(len(table))
    for server in facts.servers:
        begins = np.sort(begin[heavy & server])
        ends = np.sort((start + first)[heavy & server])
        # Those that began before the stream ended, without those that ended before it began.
        before_end = np.searchsorted(begins, start[server] + table.duration_ns[server])
        met[server] = before_end - np.searchsorted(ends, start[server] + first[server], "right")
    stalled = table.number("stalled")
    line = facts.line((met > 0).astype(np.float64), stalled)
    return line is not None and line.correlation >= _COINCIDE
