"""Rules on the time in which the answer arrives: its length, its pace, its gaps."""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan._segments import SegmentName
from latspan._study.diagnose._facts import LONGER, Facts
from latspan._study.diagnose._finding import Finding, kv_pressure, milliseconds, times
from latspan._study.diagnose._line import CORRELATED

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode"]

_MUCH_LONGER: Final = 2.2
"""
Ratio of tail to typical from which the length of answers explains a tail. Slow requests are long
ones in any recording, so usual variation does not count: with a lognormal length of sigma 0.4, the
slowest tenth has 1.9 times the median.
"""

_LOADED: Final = 1.3
"""Ratio of loaded to unloaded time per token from which batching explains it."""

_LOAD_EXPLAINS: Final = 0.5
"""Fraction of the excess per token that must follow from the load."""

_COINCIDE: Final = 0.2
"""Rank correlation of stalls with long prompts of others from which these cause them."""

_HEAVY: Final = 3.0
"""Multiple of the median prompt from which a prompt delays the streams of others."""

_STALL_EXPLAINS: Final = 0.5
"""Fraction of the excess in decode that the longest gaps must hold."""


def decode(facts: Facts) -> Finding | None:
    """Return the finding on the time in which the model writes the answer."""
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
    evidence += kv_pressure(facts)
    load = facts.load_at_server
    line = facts.line(load, per_token)
    unloaded = _unloaded(facts, per_token)
    if line is not None and line.correlation >= CORRELATED:
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
    if slower >= LONGER:
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
    load = facts.load_at_server
    least = known[np.argsort(load[known], kind="stable")[: max(10, len(known) // 10)]]
    return float(np.median(per_token[least])) if len(least) else nan


def _least_busy(facts: Facts) -> float:
    """Return the number of other units in flight during the least loaded tenth."""
    if facts.calibration is not None:
        return 0.0
    return float(np.quantile(facts.load_at_server, 0.05))


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
    even = facts.tail(usual) < LONGER * facts.typical(usual)
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
    evidence += tuple(kv_pressure(facts))
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
