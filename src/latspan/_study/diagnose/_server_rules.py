"""Rules on time in the model server before the first visible token: queue, prefill, reasoning."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan._model.metrics import TIME_TO_FIRST_TOKEN
from latspan._model.segments import SegmentName
from latspan._model.text import count, percent
from latspan._model.units import rounded_ms
from latspan._study.diagnose._cause import Cause
from latspan._study.diagnose._facts import SIMILAR, Facts, varies
from latspan._study.diagnose._finding import Finding, kv_pressure, times, waiting
from latspan._study.diagnose._line import CORRELATED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from latspan._study.diagnose._attribution import Share

_BEHIND_POOL: Final = 0.25
"""Share of the wait in the server from which a wait for a connection is its consequence."""

_LONG_PROMPT: Final = 2_000
"""Number of tokens from which a prompt is long, regardless of the others."""

_MIN_PACED_TOKENS: Final = 50
"""
Minimum number of prompt tokens for a time per token: the time that each prompt takes, whatever its
length, is most of the prefill of a shorter one.
"""

_BURSTY: Final = 3.0
"""Variance of arrivals, relative to independent ones, from which they count as bursts."""

_NEVER_EMPTY: Final = 0.2
"""Wait of the quickest tenth, relative to the tail's, from which a queue is never empty."""

_ESTIMATED: Final = 0.5
"""Fraction of a segment's time from which it is an estimate."""

_ESTIMATE_ERROR: Final = 0.36
"""
Lead that an estimated queue needs over prefill. A busy server needs longer for a prompt than an
idle one, so the share of queue is up to 0.18 too large, and that of prefill as much too small.
"""

_MIN_ALONE: Final = 10
"""Least number of requests alone at the server that show the time of the network path."""

_WAY: Final = 0.5
"""Wait of requests alone at the server, relative to the tail's, that shows a long path."""

_MOSTLY_IDLE: Final = 0.5
"""Fraction of the time with a connection from which requests that have one only wait in it."""

_EVEN: Final = 1.5
"""Mean wait of slow requests over that of the quickest tenth below which all wait as long."""

_GROWS: Final = 0.5
"""Rank correlation of the wait with the time of arrival from which it grows through a recording."""

_BEST_CACHED: Final = 0.95
"""Quantile of the cached share of prompts that shows what a cache could hold."""

_SHARED: Final = 0.5
"""Part of a difference in time per token that is a prompt's own, if all prompts are long."""

_SLOW_TOKEN_NS: Final = 1e6
"""Time per prompt token from which prefill is slow: 1,000 tokens take a second."""

_QUARTERS: Final = 4
_MIN_DELAYED: Final = 3

_CALIBRATE: Final = (
    "divide the wait with a calibration (latspan measure --calibrate, with the same endpoint), or"
    " read the server's metrics"
)
"""Lever of a wait that nothing divides."""

_MORE_CAPACITY: Final = "add capacity (slots, replicas) or lower the load"
_QUEUE_STAYS: Final = "the queue stays at half the load"

_BEHIND: Final = {
    SegmentName.QUEUE: (
        Cause.UNDER_CAPACITY,
        "in the server's queue",
        _MORE_CAPACITY,
        _QUEUE_STAYS,
    ),
    SegmentName.GATEWAY: (
        Cause.GATEWAY_QUEUE,
        "at a gateway",
        "scale the gateway, or raise its limit of requests per server",
        "the gateway's own queue metrics are at zero",
    ),
    SegmentName.SERVER_WAIT: (
        Cause.SERVER_WAIT,
        "for the server",
        _CALIBRATE,
        "the server reports short times",
    ),
}
"""Waits because of which connections stay in use: cause, place, lever, and what refutes it."""

_STABLE: Final = 0.3
"""Fraction of a prompt that must be stable for a prefix cache to matter."""


def loading(facts: Facts) -> Finding | None:
    """Return the finding that the server loads the model for a request."""
    return Finding(
        Cause.COLD_START,
        "the server loads the model while requests wait",
        "keep the model loaded: send a request before users do, and raise the idle time",
        (f"loading the model takes {rounded_ms(facts.leader.mean_ns)} per slow request",),
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
            f"slow requests wait {rounded_ms(leader.mean_ns)} in the queue, typical ones"
            f" {rounded_ms(leader.typical_ns)}"
        ),
    ]
    more, fewer = (round(each) for each in busy)
    # As many requests during slow ones, or fewer, do not explain why these are slower.
    if more > fewer or (more == fewer > 0 and not facts.attribution.by_excess):
        others = count(more, "other request")
        evidence.append(f"{others} in flight during slow ones, {fewer} during typical ones")
    evidence += waiting(facts)
    if full:
        evidence += full
        return Finding(
            Cause.KV_CACHE,
            "requests wait because the KV cache is full",
            "shorten contexts, quantize the KV cache or add memory",
            tuple(evidence),
            "slots are full too, so more memory would not shorten the queue",
            (SegmentName.QUEUE,),
        )
    # By the wait for headers. A calibration estimates a queue only where nothing is reported.
    estimated = leader.uncertain > _ESTIMATED and not facts.is_queue_calibrated
    if estimated:
        elsewhere = _is_the_way(facts) or _is_delayed(facts)
        if elsewhere is not None:
            return elsewhere
    where = "in the server's queue"
    if leader.uncertain > _ESTIMATED:
        where = "for the server to begin, in its queue or at a gateway that reports no time"
    segments: tuple[str, ...] = (SegmentName.QUEUE,)
    if facts.attribution.share(SegmentName.POOL_WAIT) > 0:
        segments = (SegmentName.QUEUE, SegmentName.POOL_WAIT)
    if _come_in_bursts(facts):
        return Finding(
            Cause.BURSTS,
            f"bursts of requests wait {where}",
            "smooth arrivals: admit fewer requests at a time, or batch adaptively",
            (*evidence, f"arrivals vary {times(facts.burstiness)} as much as independent ones"),
            "requests wait as long if they arrive evenly",
            segments,
        )
    evidence += _arrivals(facts) + _unseen(facts)
    return Finding(
        Cause.UNDER_CAPACITY,
        f"requests wait {where}",
        _MORE_CAPACITY,
        tuple(evidence),
        _QUEUE_STAYS,
        segments,
    )


def _come_in_bursts(facts: Facts) -> bool:
    """
    Return whether requests wait because they arrive in bursts, and not because there are too many.

    A queue that is never empty any more is not one of bursts: the load exceeds the capacity. Nor is
    one of arrivals that vary as independent ones do.
    """
    waits = facts.table.segment(facts.leader.name)
    late = waits[len(waits) // 2 :]
    never_empty = float(np.quantile(late, 0.1)) >= _NEVER_EMPTY * facts.tail(waits)
    return facts.burstiness >= _BURSTY and not never_empty


def _arrivals(facts: Facts) -> list[str]:
    """Return the evidence that there are too many requests, and not bursts of them."""
    waits, start = facts.table.segment(facts.leader.name), facts.table.start_ns
    if np.ptp(start) < facts.leader.mean_ns:
        return [f"all requests arrive within {rounded_ms(float(np.ptp(start)))}"]
    if facts.trend(waits) >= _GROWS:
        first, *_, last = np.array_split(waits, _QUARTERS)
        return [
            (
                "the wait grows through the recording:"
                f" {rounded_ms(float(np.median(first)))} in its first quarter,"
                f" {rounded_ms(float(np.median(last)))} in its last"
            )
        ]
    if isnan(facts.burstiness):
        return []
    if facts.burstiness >= _BURSTY:
        return ["the queue is hardly ever empty in the second half of the recording"]
    return [f"arrivals vary {times(facts.burstiness)} as much as independent ones, not in bursts"]


def _is_the_way(facts: Facts) -> Finding | None:
    """
    Return the finding if a wait that was estimated as queue is the network path to the server.

    Some servers report no queue, and send the headers of a response when its work begins. The wait
    for the headers then includes the path there and back. A request that is alone at the server
    does not queue, and the path takes as long for every request, the quickest included, whatever
    the load.
    """
    leader = facts.leader
    waits = facts.table.segment(SegmentName.QUEUE)
    alone = waits[facts.alone]
    low, high = (float(each) for each in np.quantile(waits, (0.1, 0.9)))
    tested = varies(facts.in_flight)
    if facts.calibration is not None:
        first_ns = facts.calibration.intercept_ns
        reason = f"a request alone waits {rounded_ms(first_ns)} for its first token as well"
        is_way = first_ns >= _WAY * leader.mean_ns
    elif len(alone) >= _MIN_ALONE:
        median = float(np.median(alone))
        reason = (
            f"{len(alone):,} requests were alone at the server, and half of them wait"
            f" {rounded_ms(median)} or more, which is not queueing"
        )
        is_way = median >= _WAY * leader.mean_ns
    else:
        reason = (
            f"the wait hardly varies ({rounded_ms(low)} to {rounded_ms(high)} for eight in ten"
            " requests) and does not follow the load, which is not queueing"
        )
        even = low >= _WAY * high and facts.follows_load(waits) < CORRELATED
        is_way = even and tested and leader.mean_ns < _EVEN * low
    if not is_way:
        return None
    return Finding(
        Cause.NETWORK_DISTANCE,
        "the path to the server is long, or a gateway that reports no time holds requests",
        "move the client to the server's region, or bypass the gateway, and compare",
        (
            (
                f"slow requests wait {rounded_ms(leader.mean_ns)} for the headers of the"
                f" response, typical ones {rounded_ms(leader.typical_ns)}"
            ),
            reason,
            *waiting(facts),
        ),
        "a request from the server's own host waits as long, or other clients use the server",
        (SegmentName.QUEUE, SegmentName.NETWORK),
    )


def _is_delayed(facts: Facts) -> Finding | None:
    """
    Return the finding if a wait that was estimated as queue delays requests whatever the load.

    A request that is alone at the server does not queue. If it is as often slow as others, the
    delay is on the way.
    """
    waits, alone = facts.table.segment(SegmentName.QUEUE), facts.alone
    slow = waits >= _WAY * facts.leader.mean_ns
    if alone.sum() < _MIN_ALONE or not slow.any() or facts.follows_load(waits) >= CORRELATED:
        return None
    if slow[alone].mean() < _WAY * slow.mean() or slow[alone].sum() < _MIN_DELAYED:
        return None
    return Finding(
        Cause.NETWORK_JITTER,
        "the network, or a gateway or server that reports no time, delays some requests",
        "bypass the gateway or pin the zone, and compare",
        (
            (
                f"slow requests wait {rounded_ms(facts.leader.mean_ns)} for the headers of the"
                f" response, typical ones {rounded_ms(facts.leader.typical_ns)}"
            ),
            (
                f"{percent(float(slow[alone].mean()))} of the {int(alone.sum()):,} requests that"
                f" were alone at the server are among them, {percent(float(slow.mean()))} of all,"
                " so they do not queue"
            ),
        ),
        "a request from the server's own host is as slow",
        (SegmentName.QUEUE, SegmentName.NETWORK),
    )


def _unseen(facts: Facts) -> list[str]:
    """
    Return the evidence that requests wait for something that is not in the recording.

    A queue begins behind a request that does not wait. If the first request of a busy time waits as
    long, the server works for others, or it pauses.
    """
    waits = facts.table.segment(SegmentName.QUEUE)
    slow = waits >= _WAY * facts.leader.mean_ns
    held = periods = 0
    for server in facts.servers:
        first = facts.met_at_server[server] == 0
        begun_slow = np.concatenate([[False], slow[server][first]])
        held += int((slow[server] & begun_slow[np.cumsum(first)]).sum())
        periods += int(begun_slow.sum())
    if periods < _MIN_DELAYED or held < _WAY * slow.sum():
        return []
    return [
        (
            f"{percent(held / int(slow.sum()))} of the requests that wait come in {periods:,} busy"
            " times whose first one waits as well, although none of this recording was before it:"
            " the server works for others, or it pauses"
        )
    ]


def behind_the_pool(facts: Facts) -> Finding | None:
    """
    Return the finding if connections are in use because requests wait for the server.

    More connections would only move the wait: to the server's queue, or to a gateway's.
    """
    parts = {name: facts.attribution.share(name) for name in _BEHIND}
    name = max(parts, key=parts.__getitem__)
    waits = facts.table.segment(name)
    wait_ns, held_ns = facts.tail(waits), facts.attribution.tail_ns - facts.leader.mean_ns
    if float(np.quantile(waits, 0.1)) > _MOSTLY_IDLE * wait_ns:
        # A wait that all have, however few others there are, is no queue behind the pool.
        return None
    # Without a report, the wait contains the server's work.
    is_idle = name != SegmentName.SERVER_WAIT and wait_ns >= _MOSTLY_IDLE * held_ns > 0
    if parts[name] < _BEHIND_POOL and not is_idle:
        return None
    cause, where, lever, refuted = _BEHIND[name]
    return Finding(
        cause,
        f"requests wait {where}, and others wait for their connections",
        lever,
        (
            f"slow requests wait {rounded_ms(facts.leader.mean_ns)} for a connection",
            f"requests that have one wait {rounded_ms(wait_ns)} {where}",
        ),
        refuted,
        (SegmentName.POOL_WAIT, name),
    )


def prefill(facts: Facts) -> Finding:
    """Return the finding on the time in which the server processes the prompt."""
    uncached = facts.tail(facts.uncached_tokens)
    evidence = [f"prefill takes {rounded_ms(facts.leader.mean_ns)} per slow request"]
    slow, typical = facts.means(facts.prompt_tokens)
    if not isnan(slow + typical):
        evidence.append(
            f"slow requests have {slow:,.0f} prompt tokens on average, typical ones {typical:,.0f}"
        )
    segments: tuple[str, ...] = (SegmentName.PREFILL,)
    behind = facts.attribution.named(SegmentName.QUEUE)
    if behind is not None and queue_of_prompts(facts) is not None:
        segments = (SegmentName.PREFILL, SegmentName.QUEUE)
        evidence.append(
            f"the {rounded_ms(behind.mean_ns)} that are estimated as queue contain others'"
            " prompts, which slow down its own"
        )
    prefix = _reprocessed(facts)
    if prefix:
        return _reprocessing((*evidence, *prefix), segments)
    if isnan(uncached) and facts.calibration is None:
        return Finding(
            Cause.SLOW_PREFILL,
            "the server needs long before the first token; whether prompts are long is not known",
            "record token counts, which distinguish long prompts from a slow server:"
            " LATSPAN_REQUEST_STREAM_USAGE=true",
            (*evidence, "the recording has no number of prompt tokens"),
            "prefill grows with the length of prompts",
            (SegmentName.PREFILL,),
        )
    time = facts.table.segment(SegmentName.PREFILL)
    line = facts.line(facts.uncached_tokens, time)
    grows = line is not None and line.correlation >= CORRELATED
    if line is not None and grows:
        evidence.append(f"prefill grows by {line.slope / 1e3:.0f} µs per uncached prompt token")
    risen = line is not None and facts.is_slower_than_calibrated(line)
    if facts.calibration is not None:
        evidence.append(
            f"at concurrency 1 it was {facts.calibration.per_token_ns / 1e3:.0f} µs per token"
        )
    more, fewer = facts.means(facts.uncached_tokens)
    pace, usual = facts.means(time / np.maximum(facts.uncached_tokens, 1))
    if facts.attribution.by_excess:
        # What makes slow requests slower: more tokens, or more time per token. Long prompts also
        # slow one another down, so that the time per token follows from them.
        long = fewer >= _LONG_PROMPT and grows
        is_length = (more - fewer) * usual >= (pace - usual) * more * (_SHARED if long else 1.0)
    else:
        is_length = (grows or uncached >= _LONG_PROMPT) and not usual >= _SLOW_TOKEN_NS
    if is_length and not risen:
        return Finding(
            Cause.LONG_CONTEXT,
            "the server processes long prompts",
            "trim or compress the context, for example fewer passages",
            tuple(evidence),
            "short prompts have as long a prefill",
            segments,
        )
    return Finding(
        Cause.SLOW_PREFILL,
        "the server takes long per prompt token",
        "check the device of the model, its clock rate, and the batch budget of prefill",
        tuple(evidence),
        "prefill grows with the length of prompts",
        segments,
    )


def is_long_prefill(facts: Facts) -> bool:
    """Return whether typical requests have a longer prefill than they need."""
    line = facts.line(facts.uncached_tokens, facts.table.segment(SegmentName.PREFILL))
    risen = line is not None and facts.is_slower_than_calibrated(line)
    tokens = facts.typical(facts.uncached_tokens)
    pace = facts.typical(facts.table.segment(SegmentName.PREFILL)) / max(tokens, 1.0)
    is_slow = tokens >= _MIN_PACED_TOKENS and pace >= _SLOW_TOKEN_NS
    long = tokens >= _LONG_PROMPT or is_slow
    return risen or long or bool(facts.stable_tokens and _reprocessed(facts))


def queue_of_prompts(facts: Facts) -> Share | None:
    """
    Return the prefill if the queue beside it is one of long prompts; ``None`` if it is not.

    A calibration estimates the queue as what a request waits longer than alone. If all prompts are
    long, others' prompts slow down its own, and the estimate contains that time too.
    """
    attribution, prefill = facts.attribution, prefill_close_to_queue(facts)
    if prefill is None:
        return None
    leaders = {ranking.leader.name for ranking in (attribution.of_time, attribution.of_excess)}
    is_theirs = leaders <= {SegmentName.QUEUE, SegmentName.PREFILL}
    return prefill if is_theirs and is_long_prefill(facts) else None


def prefill_close_to_queue(facts: Facts) -> Share | None:
    """Return the prefill if a calibrated queue leads it by less than the error of the estimate."""
    queue, prefill = (
        facts.attribution.named(name) for name in (SegmentName.QUEUE, SegmentName.PREFILL)
    )
    if queue is None or prefill is None or not facts.is_queue_calibrated:
        return None
    return prefill if queue.share - prefill.share < _ESTIMATE_ERROR else None


def _reprocessed(facts: Facts) -> list[str]:
    """
    Return the evidence that the server processes again what a cache could hold; empty without it.

    Either a known part is the same in all prompts and is not read from a cache, or slow requests
    have as long prompts as others, and read less of them from a cache.
    """
    prompt = facts.prompt_tokens
    tokens, uncached = facts.tail(prompt), facts.tail(facts.uncached_tokens)
    stable = facts.stable_tokens
    cached = 0 if isnan(facts.cached_share) else facts.cached_share
    if stable and tokens and stable >= _STABLE * tokens and uncached > tokens - stable / 2:
        return [
            (
                f"{stable:,.0f} tokens are the same in all prompts; {percent(cached)} of the prompt"
                " tokens come from a cache"
            )
        ]
    share = 1 - facts.uncached_tokens / np.maximum(prompt, 1)
    (slow, _), (longer, typical) = facts.means(share), facts.means(prompt)
    known = share[np.isfinite(share)]
    if not len(known) or isnan(slow):
        return []
    possible = float(np.quantile(known, _BEST_CACHED))
    if possible - slow < _STABLE or longer > SIMILAR * typical:
        return []
    return [
        (
            f"slow requests read {percent(slow)} of their prompt tokens from a cache, and"
            f" prompts that are as long {percent(possible)}"
        )
    ]


def _reprocessing(evidence: tuple[str, ...], segments: tuple[str, ...]) -> Finding:
    return Finding(
        Cause.REPROCESSED_PREFIX,
        "the server processes a part of prompts again that a cache could hold",
        "put the stable part first, and cache the prefix",
        evidence,
        "the share of cached tokens is high and the time remains",
        segments,
    )


def server_wait(facts: Facts) -> Finding:
    """
    Return the finding on a wait for the server that no report divides.

    What the recording has decides as far as it does: the tokens that the wait follows, and whether
    the stream arrived in one burst.
    """
    wait = facts.table.segment(SegmentName.SERVER_WAIT)
    for explain in (_uncached_explain, _reasoning_explains, _answer_explains):
        found = explain(facts, wait)
        if found is not None:
            return found
    return Finding(
        Cause.SERVER_WAIT,
        "the server works or lets requests wait; nothing separates queue and prefill",
        _CALIBRATE,
        (
            f"slow requests wait {rounded_ms(facts.leader.mean_ns)} for the server",
            *waiting(facts),
        ),
        "the server reports its times",
        (SegmentName.SERVER_WAIT,),
    )


def _uncached_explain(facts: Facts, wait: NDArray[np.float64]) -> Finding | None:
    found = facts.explained_by(wait, facts.uncached_tokens)
    if found is None or not facts.attribution.by_excess:
        return None
    prefix = _reprocessed(facts)
    slow, typical = facts.means(facts.uncached_tokens)
    evidence = (
        f"slow requests wait {rounded_ms(facts.leader.mean_ns)} for the server",
        f"they have {slow:,.0f} prompt tokens that come from no cache, typical ones {typical:,.0f}",
        found,
    )
    if prefix:
        return _reprocessing((*evidence, *prefix), (SegmentName.SERVER_WAIT,))
    return Finding(
        Cause.LONG_CONTEXT,
        "the wait for the server follows the length of prompts",
        "trim or compress the context, for example fewer passages",
        evidence,
        "short prompts wait as long",
        (SegmentName.SERVER_WAIT,),
    )


def _reasoning_explains(facts: Facts, wait: NDArray[np.float64]) -> Finding | None:
    tokens = facts.table.number("reasoning_tokens")
    found = facts.explained_by(wait, tokens)
    if found is None:
        return None
    slow, typical = facts.means(tokens)
    return Finding(
        Cause.REASONING,
        "the model reasons before it answers, without sending what it thinks",
        "lower the reasoning effort, and show progress meanwhile",
        (
            f"slow requests have {slow:,.0f} reasoning tokens, typical ones {typical:,.0f}",
            found,
        ),
        "requests without reasoning wait as long",
        (SegmentName.SERVER_WAIT,),
    )


def _answer_explains(facts: Facts, wait: NDArray[np.float64]) -> Finding | None:
    """Return the finding that a response without a stream takes long because it is long."""
    tokens = facts.table.number("output_tokens")
    if np.isfinite(facts.table.number(TIME_TO_FIRST_TOKEN)).any():
        return None
    found = facts.explained_by(wait, tokens)
    if found is None:
        return None
    slow, typical = facts.means(tokens)
    return Finding(
        Cause.OUTPUT_LENGTH,
        "answers are long, and arrive as a whole",
        "cap or shape the output, and stream it",
        (
            f"slow requests have {slow:,.0f} output tokens, typical ones {typical:,.0f}",
            found,
        ),
        "slow requests have as many output tokens as typical ones",
        (SegmentName.SERVER_WAIT,),
    )


def reasoning(facts: Facts) -> Finding | None:
    """Return the finding that the model reasons before it answers."""
    tokens = facts.tail(facts.table.number("reasoning_tokens"))
    evidence = [f"reasoning takes {rounded_ms(facts.leader.mean_ns)} per slow request"]
    if not isnan(tokens):
        evidence.append(f"slow requests have {tokens:,.0f} reasoning tokens")
    return Finding(
        Cause.REASONING,
        "the model reasons before it answers",
        "lower the reasoning effort, and show progress meanwhile",
        tuple(evidence),
        "the first visible token follows the first token at once",
        (SegmentName.REASONING,),
    )
