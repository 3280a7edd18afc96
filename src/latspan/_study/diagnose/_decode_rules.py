"""
Rules on the time in which the answer arrives: its length, its pace, its gaps.

The time of a stream is the number of its tokens times the time per token, and its stalls. What
makes slow requests slower is the largest of the three differences to typical ones. If all requests
are about as slow, no difference explains it, and the cause is a property of all.
"""

from __future__ import annotations

from dataclasses import replace
from math import isnan, nan
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from latspan._model.metrics import (
    CHUNK_GAP_MAX,
    FIRST_TOKENS,
    OF_PACE,
    TIME_PER_OUTPUT_TOKEN,
    TIME_TO_FIRST_TOKEN,
)
from latspan._model.segments import SegmentName
from latspan._model.units import rounded_ms
from latspan._study.diagnose._cause import Cause
from latspan._study.diagnose._facts import CLUMPED, VARIED, Facts, varies
from latspan._study.diagnose._finding import Finding, kv_pressure, times
from latspan._study.diagnose._group_rules import slower_group
from latspan._study.diagnose._line import CORRELATED, beyond, explained_parts, linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SLOW_PACE_NS: Final = 40e6
"""
Time per token from which a model is slow, whatever the length of answers.

Source: the limit of the 99th percentile for interactive use of Llama 2 70B in MLPerf Inference 5.
"""

_QUICK_PACE_NS: Final = 10e6
"""Time per token below which a model is quick: 100 tokens per second, many times reading speed."""

_MUCH_LONGER: Final = 2.2
"""
Ratio of tail to typical from which the length of answers explains a tail of a slow model too. Slow
requests are long ones in any recording: with a lognormal length of sigma 0.4, the slowest tenth has
1.9 times the median.
"""

_MANY_TOKENS: Final = 300
"""Tokens of a typical answer from which answers are long, if the model is not slow."""

_MANY: Final = 2.0
"""Number of other requests at the server from which a batch may be what makes tokens slow."""

_LOADED: Final = 1.3
"""Ratio of loaded to unloaded time per token from which batching explains it."""

_LOAD_EXPLAINS: Final = 0.5
"""Fraction of the excess per token that must follow from the load."""

_PROMPTS_EXPLAIN: Final = 0.2
"""Fraction of the excess per token that must follow from the prompts of other requests."""

_MORE: Final = 2.0
"""Part of the load in the time per token, over that of prompts, from which the load explains it."""

_TRENDS: Final = 0.5
"""Rank correlation with time from which a pace becomes worse, whatever overlaps with it."""

_COINCIDE: Final = 0.2
"""Rank correlation of stalls with long prompts of others from which these cause them."""

_HEAVY: Final = 3.0
"""Multiple of the median prompt from which a prompt delays the streams of others."""

_PAUSED: Final = 0.1
"""Fraction of the excess in stalls of streams from which a server pauses, and requests wait too."""

_MOSTLY: Final = 0.5
"""Fraction of a stream's time in stalls, or of streams that are held back, that counts."""

_STREAMED: Final = 0.5
"""Rank correlation of decode with reasoning tokens from which these are in the stream."""

_SEVERAL: Final = 10
_AT_ONCE_NS: Final = 0.1e6
"""
Time per token of a stream of several tokens up to which they arrive at once. The fastest servers
write some thousand tokens per second to one stream.
"""

_CLUMPS_APART: Final = 0.3
"""Time between two clumps over the wait before the first token from which they belong together."""


class _Parts(NamedTuple):
    """
    Differences between slow and typical requests, as mean time per request in nanoseconds.

    Args:
        stalls: Longer gaps in otherwise even streams.
        length: More tokens, at the typical time per token.
        pace: More time per token.
    """

    stalls: float
    length: float
    pace: float


def is_buffered(facts: Facts) -> bool:
    """Return whether most slow streams arrived in one burst, or in a few clumps."""
    table, tail = facts.table, facts.attribution.tail
    held = np.nan_to_num(table.number("buffered")[tail]) > 0
    many = table.number("output_tokens")[tail] >= _SEVERAL
    held |= many & (table.number(TIME_PER_OUTPUT_TOKEN)[tail] <= _AT_ONCE_NS)
    longest = table.number(CHUNK_GAP_MAX)[tail] >= _CLUMPS_APART * facts.leader.mean_ns
    clumps = longest & (table.number("clumped")[tail] >= CLUMPED)
    return bool((held | clumps).mean() >= _MOSTLY)


def buffered(facts: Facts) -> Finding:
    """Return the finding that something on the way holds streams back."""
    return Finding(
        Cause.BUFFERING,
        "a proxy or gateway holds the stream back and delivers it in bursts",
        "switch the proxy's response buffering off, and flush each event",
        (
            (
                f"slow requests spend {rounded_ms(facts.leader.mean_ns)} in {facts.leader.name}"
                " before their first token"
            ),
            "their streams arrive in one burst, although a server generates tokens one by one"
            if is_buffered(facts)
            else "the server had begun to decode before that",
        ),
        "chunks arrive one by one",
        (facts.leader.name, SegmentName.DECODE),
    )


def decode(facts: Facts) -> Finding | None:
    """Return the finding on the time in which the model writes the answer."""
    if facts.table.goal.metric in FIRST_TOKENS and (
        facts.table.goal.metric == TIME_TO_FIRST_TOKEN or is_buffered(facts)
    ):
        # The first token was generated, and did not arrive.
        return buffered(facts)
    parts = _parts(facts)
    evidence = [
        f"decode takes {rounded_ms(facts.leader.mean_ns)} per slow request",
        *_lengths(facts),
    ]
    if parts is None:
        return _of_all(facts, evidence)
    if not facts.attribution.by_excess:
        return (
            _interference(facts, evidence)
            or _contention(facts, evidence)
            or _of_all(facts, evidence)
        )
    largest = max(parts)
    if largest == parts.stalls:
        return _stalls(facts) or _pace(facts, evidence)
    if largest == parts.length:
        return _length(facts, evidence)
    return _pace(facts, evidence)


def _lengths(facts: Facts) -> list[str]:
    """Return the evidence on the number of tokens and the time per token."""
    tokens, pace = _tokens(facts), _pace_ns(facts)
    slow, typical = facts.means(tokens)
    per_slow, per_typical = facts.means(pace)
    unit = "chunks" if tokens is facts.table.number("chunks") else "output tokens"
    evidence: list[str] = []
    if not isnan(slow + typical):
        evidence.append(
            f"slow requests have {slow:,.0f} {unit} on average, typical ones {typical:,.0f}"
        )
    if not isnan(per_slow + per_typical):
        evidence.append(
            f"one takes {rounded_ms(per_slow)} in slow requests, {rounded_ms(per_typical)} in"
            " typical ones"
        )
    return evidence


def _tokens(facts: Facts) -> NDArray[np.float64]:
    """
    Return the number of tokens, or of chunks where it is unknown.

    Most providers count the tokens in which a model reasons as output, but these come before its
    answer. Some count them apart, which shows if there are more of them.
    """
    tokens = facts.table.number("output_tokens")
    if np.isfinite(tokens[facts.attribution.tail]).mean() < 0.5:
        return facts.table.number("chunks")
    reasoning = np.nan_to_num(facts.table.number("reasoning_tokens"))
    if (reasoning > tokens).any():
        return tokens
    visible, time = tokens - reasoning, facts.table.segment(SegmentName.DECODE)
    # What takes time after the first token was streamed with the answer.
    is_streamed = beyond(reasoning, time, visible) >= _STREAMED
    return tokens if is_streamed else visible


def _number_of(facts: Facts) -> NDArray[np.float64]:
    """Return the number of tokens whose time the goal metric contains."""
    if facts.table.goal.metric in OF_PACE:
        # It is the time of one token, whatever their number.
        return np.ones(len(facts.table))
    return _tokens(facts)


def _stalled(facts: Facts) -> NDArray[np.float64]:
    """Return the stalled time of each stream, per token if the goal metric is."""
    stalled = np.nan_to_num(facts.table.number("stalled"))
    if facts.table.goal.metric == TIME_PER_OUTPUT_TOKEN:
        return stalled / np.maximum(np.nan_to_num(_tokens(facts), nan=1.0) - 1, 1)
    return stalled


def _pace_ns(facts: Facts) -> NDArray[np.float64]:
    """Return the time per token of each stream without its stalls, NaN if it is unknown."""
    if facts.table.goal.metric == CHUNK_GAP_MAX:
        return facts.table.number("chunk_gap_median")
    number = _number_of(facts)
    time = np.clip(facts.table.segment(SegmentName.DECODE) - _stalled(facts), 0, None)
    return np.where(number > 0, time / np.maximum(number, 1), nan)


def is_slow_pace(facts: Facts) -> bool:
    """Return whether the model is slow by its time per token in typical requests."""
    return facts.typical(_pace_ns(facts)) >= _SLOW_PACE_NS


def _parts(facts: Facts) -> _Parts | None:
    """Return what the excess in decode consists of; ``None`` if the number of tokens is unknown."""
    more, fewer = facts.means(_number_of(facts))
    pace, usual = facts.means(_pace_ns(facts))
    if isnan(more + fewer + pace + usual):
        return None
    stalls = facts.means(_stalled(facts))
    return _Parts(stalls[0] - stalls[1], (more - fewer) * usual, (pace - usual) * more)


def _length(facts: Facts, evidence: list[str]) -> Finding:
    more, fewer = facts.means(_tokens(facts))
    _, usual = facts.means(_pace_ns(facts))
    if usual >= _SLOW_PACE_NS and more < _MUCH_LONGER * fewer:
        return _slow_model(evidence)
    return _long_answers(evidence)


def _long_answers(evidence: list[str]) -> Finding:
    return Finding(
        Cause.OUTPUT_LENGTH,
        "answers are long",
        "cap or shape the output",
        tuple(evidence),
        "slow requests have as many output tokens as typical ones",
        (SegmentName.DECODE,),
    )


def _slow_model(evidence: list[str]) -> Finding:
    return Finding(
        Cause.SLOW_MODEL,
        "the model takes long per token in every request",
        "quantize, use a smaller model, or decode speculatively",
        tuple(evidence),
        "the time per token depends on the load",
        (SegmentName.DECODE,),
    )


def _of_all(facts: Facts, evidence: list[str]) -> Finding | None:
    """
    Return the finding on streams that are all about as slow.

    Returns:
        ``None`` if short answers of a quick model take the time, and no limit states that it is too
        long.
    """
    if is_buffered(facts):
        # Nothing of the answer is seen before its end, whatever the model does.
        return buffered(facts)
    decode_ns = facts.table.segment(SegmentName.DECODE)
    if facts.tail(_stalled(facts)) >= _MOSTLY * facts.tail(decode_ns) > 0:
        return _stalls(facts)
    usual, tokens = facts.typical(_pace_ns(facts)), facts.typical(_tokens(facts))
    is_pace = facts.table.goal.metric in OF_PACE
    if usual < _SLOW_PACE_NS and tokens >= _MANY_TOKENS and not is_pace:
        return _long_answers(evidence)
    if usual < _QUICK_PACE_NS and facts.table.goal.limit_ns is None:
        return None
    if isnan(usual) and facts.attribution.by_excess:
        return Finding(
            Cause.OUTPUT_LENGTH,
            "answers are long, or the model is slow: the number of tokens is not known",
            "record token counts: LATSPAN_REQUEST_STREAM_USAGE=true",
            tuple(evidence),
            "slow requests have as many output tokens as typical ones",
            (SegmentName.DECODE,),
        )
    return _in_a_batch(facts, evidence) or _slow_model(evidence)


def _in_a_batch(facts: Facts, evidence: list[str]) -> Finding | None:
    """Return the finding on a model that is slow under a load that never changes."""
    load = facts.load_at_server
    others = facts.typical(load)
    if _is_calibrated(facts) or varies(load) or others < _MANY:
        return None
    return replace(
        _slow_model(evidence),
        summary="the model takes long per token in every request, by itself or because of its"
        " batch",
        lever="measure one request alone, latspan measure --calibrate: if its tokens are quick, cap"
        " the batch; otherwise, quantize or use a smaller model",
        evidence=(
            *evidence,
            f"about {others:.0f} other requests are at the server all the time",
        ),
    )


def _pace(facts: Facts, evidence: list[str]) -> Finding:
    """Return the finding on slow requests whose tokens take longer than typical ones."""
    found = (
        _interference(facts, evidence)
        or _contention(facts, evidence)
        or _unseen_stalls(facts, evidence)
        or _long_contexts(facts, evidence)
        or slower_group(facts, _pace_ns(facts), "time per token")
    )
    if found is not None:
        return found
    whatever = ", whatever the load" if varies(facts.load_at_server) else ""
    return Finding(
        Cause.SLOW_DECODE,
        f"some requests are decoded slowly{whatever}",
        "profile the host: memory, garbage collection, preemption",
        (*evidence, *kv_pressure(facts)),
        "the time per token follows the load or the length",
        (SegmentName.DECODE,),
    )


def _contention(facts: Facts, evidence: list[str]) -> Finding | None:
    """Return the finding that tokens take longer while other requests are decoded."""
    load = facts.load_at_server
    busy = facts.tail(load)
    always = _is_calibrated(facts) and busy >= VARIED and not varies(load)
    ratio = _loaded(facts)
    if ratio is None or not (always or _is_by_load(facts, load)):
        return None
    return Finding(
        Cause.BATCH_CONTENTION,
        "decode slows down while other requests run",
        "cap the batch or the concurrency, or add a replica",
        (
            *evidence,
            *kv_pressure(facts),
            (
                f"a token takes {times(ratio)} as long with {busy:.0f} other requests at the server"
                " as without load"
            ),
        ),
        "a token takes as long without other requests",
        (SegmentName.DECODE,),
    )


def _long_contexts(facts: Facts, evidence: list[str]) -> Finding | None:
    """
    Return the finding that tokens take longer while requests with long prompts are decoded.

    Each step of a batch reads the keys and values of all its prompts.
    """
    tokens, ratio = facts.tokens_at_server, _loaded(facts)
    if ratio is None or not _is_by_load(facts, tokens):
        return None
    if facts.trend(_pace_ns(facts)) >= _TRENDS:
        # Slower requests overlap more, whatever their length.
        return None
    return Finding(
        Cause.BATCH_CONTENTION,
        "decode slows down while other requests with long prompts run",
        "limit the tokens of a batch, or separate long prompts",
        (
            *evidence,
            *kv_pressure(facts),
            (
                f"a token takes {times(ratio)} as long with {facts.tail(tokens):,.0f} prompt tokens"
                " of other requests at the server as without load"
            ),
        ),
        "a token takes as long beside long prompts",
        (SegmentName.DECODE,),
    )


def _loaded(facts: Facts) -> float | None:
    """Return the time per token of slow requests over that without load; ``None`` if alike."""
    pace = _pace_ns(facts)
    unloaded, slow = _unloaded(facts, pace), facts.tail(pace)
    return slow / unloaded if slow >= _LOADED * unloaded > 0 else None


def _is_by_load(facts: Facts, load: NDArray[np.float64]) -> bool:
    """Return whether the time per token follows a load, which explains most of its excess."""
    pace = _pace_ns(facts)
    line = facts.line(load, pace)
    least = _TRENDS if facts.trend(pace) >= _TRENDS else CORRELATED
    if line is None or facts.follows_throughout(load, pace) < least:
        return False
    lowest = 0.0 if facts.calibration is not None else float(np.nanquantile(load, 0.05))
    excess_ns = facts.tail(pace) - _unloaded(facts, pace)
    return line.slope * (facts.tail(load) - lowest) >= _LOAD_EXPLAINS * excess_ns


def _is_calibrated(facts: Facts) -> bool:
    """Return whether the time per token of a single request is known."""
    return facts.calibration is not None and not isnan(facts.calibration.tpot_ns)


def _unloaded(facts: Facts, pace: NDArray[np.float64]) -> float:
    """Return the time per token without load: calibrated, or of the least loaded tenth."""
    if facts.calibration is not None and _is_calibrated(facts):
        return facts.calibration.tpot_ns
    known = np.flatnonzero(~np.isnan(pace))
    load = facts.load_at_server
    least = known[np.argsort(load[known], kind="stable")[: max(10, len(known) // 10)]]
    return float(np.median(pace[least])) if len(least) else nan


def _interference(facts: Facts, evidence: list[str]) -> Finding | None:
    """
    Return the finding that other requests' prompts slow a stream down.

    Both more prompts and more streams slow a batch down, and both grow with the load. The prompts
    are the cause if the time per token follows them beyond what the load explains, and more so
    than it follows the load beyond what they explain. The load is that at the start: a stream that
    is slow overlaps with more others. For the same reason, the load during a stream may have twice
    the part of the prompts in a plane through both, and no more. The prompts must also explain a
    part of the excess, or most of the time that typical requests need: if nearly all streams meet
    prompts, the slowest ones need not meet more of them.
    """
    met, load = prompts_met(facts), facts.met_at_server
    time = facts.table.segment(SegmentName.DECODE) / np.maximum(_number_of(facts), 1)
    by_prompts, by_load = beyond(met, time, load), beyond(load, time, met)
    line = facts.line(met, time)
    if line is None or by_prompts < max(CORRELATED, by_load):
        return None
    of_prompts, of_load = (
        facts.tail(part) for part in explained_parts((met, facts.load_at_server), time)
    )
    if of_load > _MORE * of_prompts:
        return None
    (more, fewer), (slow, typical) = facts.means(met), facts.means(time)
    # By the values and not their ranks, which a few slow streams of another cause hardly change.
    is_of_all = line.slope * fewer >= _MOSTLY * typical and linear(met, time) >= _MOSTLY
    if not facts.attribution.by_excess:
        fewer, typical = 0.0, 0.0
    if not is_of_all and line.slope * (more - fewer) < _PROMPTS_EXPLAIN * (slow - typical):
        return None
    return _interfering(
        (
            *evidence,
            (
                "the time per token follows the prompts of other requests that the server processes"
                f" meanwhile (rank correlation {by_prompts:.1f} beyond that with the load)"
            ),
        )
    )


def _interfering(evidence: tuple[str, ...]) -> Finding:
    return Finding(
        Cause.PREFILL_INTERFERENCE,
        "streams stall while the server processes other requests' prompts",
        "process prompts in chunks, or separate long prompts",
        evidence,
        "streams stall without other requests' prompts",
        (SegmentName.DECODE,),
    )


def _stalls(facts: Facts) -> Finding | None:
    """Return the finding on long gaps in otherwise even streams; ``None`` if there are none."""
    table, tail, typical = facts.table, facts.attribution.tail, facts.attribution.typical
    longest, usual = table.number(CHUNK_GAP_MAX), table.number("chunk_gap_median")
    stalled = _stalled(facts)
    if not np.isfinite(usual[tail]).any() or not len(typical):
        return None
    evidence: tuple[str, ...] = (
        (
            f"stalls take {rounded_ms(float(stalled[tail].mean()))} of slow requests,"
            f" {rounded_ms(float(stalled[typical].mean()))} of typical ones"
        ),
        f"a usual gap takes {rounded_ms(facts.tail(usual))}",
    )
    if not isnan(facts.tail(longest)):
        evidence += (
            f"half of the slow requests have a gap of {rounded_ms(facts.tail(longest))} or more",
        )
    if _meets_prefills(facts, np.nan_to_num(table.number("stalled"))):
        return _interfering(
            (*evidence, "long prompts of other requests begin during the stalled streams")
        )
    paused = facts.tail(np.nan_to_num(table.number("gc_s")))
    follows = facts.line(facts.load_at_server, stalled)
    if paused > 0:
        evidence += ("the process collects garbage meanwhile",)
    elif follows is not None and follows.correlation < _COINCIDE:
        evidence += ("they follow no load",)
    return Finding(
        Cause.RANDOM_STALLS,
        "streams stall at random",
        "profile the server's host: memory, garbage collection, preemption",
        (*evidence, *kv_pressure(facts)),
        "stalls coincide with other requests",
        (SegmentName.DECODE,),
    )


def _unseen_stalls(facts: Facts, evidence: list[str]) -> Finding | None:
    """Return the finding that prompts stall streams of which only the time per token is known."""
    if np.isfinite(facts.table.number("chunk_gap_median")[facts.attribution.tail]).any():
        return None
    pace = np.nan_to_num(_pace_ns(facts))
    delays_ns = np.clip(pace - facts.typical(_pace_ns(facts)), 0, None) * np.nan_to_num(
        _tokens(facts)
    )
    if not _meets_prefills(facts, delays_ns):
        return None
    return _interfering((*evidence, "long prompts of other requests begin during the slow streams"))


def pausing(facts: Facts) -> Finding | None:
    """
    Return the finding that the server pauses: streams stall, and other requests wait meanwhile.

    Returns:
        ``None`` if slow requests do not stall clearly longer than typical ones, or if they stall
        with other requests' prompts.
    """
    parts = _parts(facts)
    if parts is None or not facts.attribution.by_excess:
        return None
    if parts.stalls < max(parts.length, parts.pace, _PAUSED * facts.attribution.excess_ns):
        return None
    found = _stalls(facts)
    if found is None or found.cause != Cause.RANDOM_STALLS:
        return None
    waits = (
        f"slow requests wait {rounded_ms(facts.leader.mean_ns)} for the server, typical ones"
        f" {rounded_ms(facts.leader.typical_ns)}"
    )
    return replace(
        found,
        summary="the server pauses at random: streams stall, and other requests wait",
        evidence=(waits, *found.evidence),
        segments=(facts.leader.name, SegmentName.DECODE),
    )


def _prompt_sizes(facts: Facts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the size of each prompt, in tokens or as the time of its work, and that time."""
    work = facts.table.segment(SegmentName.PREFILL, SegmentName.SERVER_WAIT)
    size = facts.uncached_tokens
    # A stall of the server makes the waits of others long too, so tokens are better evidence.
    return (size if np.isfinite(size).any() else work), work


def prompts_met(facts: Facts) -> NDArray[np.float64]:
    """
    Return the size of the prompts that were processed after the first token of each stream.

    The time in which they count is the same for all streams, because a slow stream would otherwise
    meet more prompts than a fast one.
    """
    size, _ = _prompt_sizes(facts)
    size = np.nan_to_num(size)
    start = facts.table.start_ns.astype(np.float64)
    first = start + np.nan_to_num(facts.table.number(TIME_TO_FIRST_TOKEN))
    lasts = float(np.median(start + facts.table.duration_ns - first))
    met = np.zeros(len(facts.table))
    for server in facts.servers:
        order = np.argsort(first[server], kind="stable")
        instants = first[server][order]
        summed = np.concatenate([[0.0], np.cumsum(size[server][order])])
        until = np.searchsorted(instants, first[server] + lasts, "right")
        met[server] = summed[until] - summed[np.searchsorted(instants, first[server], "right")]
    return met


def _meets_prefills(facts: Facts, delays_ns: NDArray[np.float64]) -> bool:
    """
    Return whether the long prompts of other requests delay streams.

    Streams that meet such prompts are delayed more, and the prompts take long enough: each holds a
    stream no longer than its own first token takes.

    Args:
        facts: The facts.
        delays_ns: Delay of each stream, in nanoseconds.
    """
    table, tail = facts.table, facts.attribution.tail
    size, work = _prompt_sizes(facts)
    first_ns = np.nan_to_num(table.number(TIME_TO_FIRST_TOKEN), nan=0.0)
    start = table.start_ns.astype(np.float64)
    first, end = start + first_ns, start + table.duration_ns
    begin = first - np.minimum(work, first_ns)
    heavy = size >= _HEAVY * max(float(np.nanmedian(size)), 1.0)
    if heavy.sum() < 3:
        return False
    met_ns = np.zeros(len(table))
    for server in facts.servers:
        prompts = heavy & server
        begun = _summed(begin[prompts], first_ns[prompts], end[server])
        met_ns[server] = begun - _summed(first[prompts], first_ns[prompts], first[server])
    line = facts.line((met_ns > 0).astype(np.float64), delays_ns)
    if line is None or line.correlation < _COINCIDE:
        return False
    return float(met_ns[tail].sum()) >= _MOSTLY * float(delays_ns[tail].sum())


def _summed(
    instants: NDArray[np.float64], times_ns: NDArray[np.float64], until: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sum of the times whose instants are not after each of other instants."""
    order = np.argsort(instants, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(times_ns[order])])
    return sums[np.searchsorted(instants[order], until, "right")]
