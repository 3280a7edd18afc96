"""Rules on time that passes in the application, in its client library or on the network."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan._base.shown import printable
from latspan._model.segments import STAGE_KINDS, Kind, SegmentName, Stage, host_of_exchange
from latspan._model.text import percent
from latspan._model.units import rounded_ms
from latspan._study.diagnose._cause import Cause
from latspan._study.diagnose._facts import CLUMPED, Facts
from latspan._study.diagnose._finding import Finding, times
from latspan._study.diagnose._line import beyond

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REUSED: Final = 0.9
"""Fraction of reused connections below which connections are opened too often."""

_FOLLOWS: Final = 0.5
"""Rank correlation of a time with requests in flight, or with their size, that causes it."""

_AFTER: Final = 0.15
"""Weight of the time after the last token from which the path itself delays bytes."""

_FEWER: Final = 0.5
"""Fraction of the clumps of slow streams below which quick ones have fewer of them."""

_STAGE_CAUSES: Final = {
    Stage.RETRIEVE: (
        Cause.RETRIEVAL,
        "cache retrieved documents, or retrieve fewer of them, or in parallel",
    ),
    Stage.TOOL: (Cause.SLOW_TOOL, "speed the tool up, cache its results, or start it earlier"),
    Stage.TOKENIZE: (Cause.TOKENIZATION, "tokenize once and cache the result"),
    Stage.PARSE: (Cause.PARSING, "parse less, or move parsing off the critical path"),
    Stage.AUTH: (Cause.AUTHENTICATION, "cache the result of the authentication"),
    Stage.SAFETY: (Cause.SAFETY_CHECK, "check the output in parts while it streams"),
    Stage.POSTPROCESS: (Cause.POST_PROCESSING, "process the output in parts while it streams"),
    Stage.SEND_STREAM: (Cause.SLOW_READER, "flush each event, and look for a slow client"),
    Stage.ROUTE: (Cause.ROUTING, "simplify or cache the routing decision"),
}


def generator(facts: Facts) -> Finding | None:
    """Return the finding that the load generator itself sent its requests late."""
    return Finding(
        Cause.LOAD_GENERATOR,
        "the load generator sends requests later than scheduled",
        "give the generator more CPU, or use more processes",
        (f"dispatch lag takes {rounded_ms(facts.leader.mean_ns)} per slow request",),
        "a generator on a machine of its own shows the same latency",
        (SegmentName.DISPATCH_LAG,),
    )


def blocked_event_loop(facts: Facts) -> Finding | None:
    """Return the finding that the application computes on its event loop."""
    return Finding(
        Cause.BLOCKED_EVENT_LOOP,
        "the application blocks its own event loop",
        "move CPU-bound work off the event loop, pure Python code to another process",
        (
            (
                f"the loop did not run for {rounded_ms(facts.leader.mean_ns)} per slow request,"
                f" {rounded_ms(facts.leader.typical_ns)} per typical one"
            ),
        ),
        "latspan.host.event_loop.lag is low while requests are slow",
        (SegmentName.EVENT_LOOP,),
    )


def client_pool(facts: Facts) -> Finding | None:
    """Return the finding that all connections of the client's pool are in use."""
    busy = facts.tail(facts.in_flight)
    return Finding(
        Cause.CLIENT_POOL,
        "requests wait for a connection of the client's own pool",
        "raise the connection limit of the client, and share one client",
        (
            (
                f"slow requests wait {rounded_ms(facts.leader.mean_ns)} for a connection"
                f" while {busy:.0f} others are in flight"
            ),
        ),
        "more connections do not shorten the wait, so it moves to the server's queue",
        (SegmentName.POOL_WAIT,),
    )


def connections(facts: Facts) -> Finding | None:
    """Return the finding that connections are opened for requests, and not reused."""
    reused = facts.table.number("reused")[facts.attribution.tail]
    known = reused[~(reused != reused)]
    share = float(known.mean()) if len(known) else float("nan")
    evidence = [
        f"opening connections takes {rounded_ms(facts.leader.mean_ns)} per slow request",
    ]
    if not isnan(share):
        evidence.append(f"{percent(share)} of the slow requests reuse a connection")
        if share >= _REUSED:
            return network(facts)
    return Finding(
        Cause.NO_CONNECTION_REUSE,
        "requests open new connections",
        "keep connections alive: share one client, and warm it before the first request",
        tuple(evidence),
        "connections are reused and the time remains",
        (SegmentName.CONNECT, SegmentName.DNS, SegmentName.TCP, SegmentName.TLS),
    )


def network(facts: Facts) -> Finding | None:
    """Return the finding on time between client and server, without the server's own."""
    leader = facts.leader
    evidence = (
        (
            f"slow requests spend {rounded_ms(leader.mean_ns)} in transit, typical ones"
            f" {rounded_ms(leader.typical_ns)}"
        ),
    )
    if leader.name in (SegmentName.NETWORK, SegmentName.SERVER_WAIT):
        transit = facts.table.segment(leader.name)
        sized = facts.explained_by(transit, facts.table.number("input_tokens"))
        if sized is not None:
            return _large(leader.name, (*evidence, sized))
        after = facts.attribution.named(SegmentName.STREAM_CLOSE)
        if after is not None and facts.attribution.weight(after) >= _AFTER:
            return _large(
                leader.name,
                (
                    *evidence,
                    (
                        f"the end of a response takes {rounded_ms(after.mean_ns)} after its last"
                        f" token in slow requests, {rounded_ms(after.typical_ns)} in typical ones"
                    ),
                ),
            )
        follows = facts.follows_load(transit)
        if follows >= _FOLLOWS and facts.quick_alone(transit, leader.mean_ns):
            full = _full_path(facts, transit)
            if full is not None:
                return _large(leader.name, (*evidence, full))
            return Finding(
                Cause.GATEWAY_QUEUE,
                "something between client and server holds requests while others are in flight",
                "raise the gateway's limit of requests per server, or scale it",
                (
                    *evidence,
                    (
                        f"it follows the requests in flight (rank correlation {follows:.1f}), and"
                        " requests without others hardly have it"
                    ),
                ),
                "requests without others in flight spend as long",
                (leader.name, SegmentName.NETWORK, SegmentName.GATEWAY),
            )
        if not facts.is_spread(leader):
            return Finding(
                Cause.NETWORK_JITTER,
                "the network, or a gateway that reports no time, delays some requests",
                "bypass the gateway or pin the zone, and compare",
                evidence,
                "a request from the server's own host is as slow",
                (leader.name, SegmentName.NETWORK),
            )
    return Finding(
        Cause.NETWORK_DISTANCE,
        "the path to the server is long, or the request is large",
        "move the client to the server's region, or send less",
        evidence,
        "a small request over a warm connection is as fast as from the server's own region",
        (leader.name, SegmentName.NETWORK, SegmentName.SEND),
    )


def _full_path(facts: Facts, transit: NDArray[np.float64]) -> str | None:
    """
    Return the evidence that the bytes of others fill the path; ``None`` if there is none.

    The time in transit follows the requests in flight. A gateway that holds requests counts them,
    whatever their size, and relays the stream of a request that it has let through as it arrives. A
    path that is full delays by bytes: the tokens of a stream arrive together, or a request that is
    longer takes longer, with as many others in flight.
    """
    column = facts.table.number("clumped")
    clumped, quick = facts.tail(column), facts.least_loaded(column)
    # A server that writes several tokens at once does so without load too.
    if clumped >= CLUMPED and quick < _FEWER * clumped:
        return f"{percent(clumped)} of the chunks of slow responses arrive together with others"
    by_size = beyond(facts.table.number("input_tokens"), transit, facts.met)
    if by_size < _FOLLOWS:
        return None
    return (
        f"it follows the length of prompts (rank correlation {by_size:.1f} beyond that with the"
        " requests in flight)"
    )


def _large(segment: str, evidence: tuple[str, ...]) -> Finding:
    return Finding(
        Cause.NETWORK_DISTANCE,
        "the path to the server is slow, and large messages take long on it",
        "send less or ask for shorter responses, compress, or move the client nearer to the server",
        evidence,
        "a small request takes as long",
        (segment, SegmentName.NETWORK, SegmentName.SEND),
    )


def gateway(facts: Facts) -> Finding | None:
    """Return the finding on requests that a gateway reports to hold."""
    return Finding(
        Cause.GATEWAY_QUEUE,
        "a gateway in front of the model holds requests",
        "scale the gateway, or raise its limit of requests per server",
        (f"the gateway reports {rounded_ms(facts.leader.mean_ns)} per slow request",),
        "the gateway's own queue metrics are at zero",
        (SegmentName.GATEWAY,),
    )


def retries(facts: Facts) -> Finding | None:
    """Return the finding on failed attempts and the waits between them."""
    slow, typical = facts.means(facts.table.number("attempts"))
    counted = (
        ()
        if isnan(slow + typical)
        else (f"slow requests need {slow:.1f} attempts on average, typical ones {typical:.1f}",)
    )
    return Finding(
        Cause.RETRIES,
        "failed attempts and the waits before the next one",
        "find out why attempts fail: shape arrivals, raise the quota, respect Retry-After",
        (
            *counted,
            f"retries take {rounded_ms(facts.leader.mean_ns)} per slow request",
        ),
        "slow requests have one attempt",
        (SegmentName.RETRY,),
    )


def many_steps(facts: Facts) -> Finding | None:
    """
    Return the finding that the number of steps explains the difference, not their length.

    Further steps are expected to take as long as those of typical requests, with as much time of
    the application for each. All calls count as steps of one name.
    """
    table, attribution = facts.table, facts.attribution
    if not attribution.by_excess or table.kind is not Kind.REQUEST:
        return None
    calls_ns = np.zeros(len(table))
    for name in _OF_CALLS.intersection(table.names):
        calls_ns += table.segment(name)
    groups = [("calls", table.chains.astype(np.float64), calls_ns)]
    if table.steps is not None:
        for name, number in table.steps.counts_by_name(len(table)).items():
            if name in table.names:
                groups.append((printable(name), number, table.segment(name)))
    slow_total = typical_total = further_ns = 0.0
    evidence: list[str] = []
    for name, number, time_ns in groups:
        slow, typical = facts.means(number)
        slow_total, typical_total = slow_total + slow, typical_total + typical
        if typical > 0 and slow >= _MANY * typical:
            further_ns += (slow - typical) / typical * facts.means(time_ns)[1]
            evidence.append(f"{name}: {slow:.1f} per slow request, {typical:.1f} per typical one")
    if not (typical_total > 0 and slow_total >= _MANY * typical_total):
        return None
    _, between_ns = facts.means(table.application_ns("between"))
    if not isnan(between_ns):
        further_ns += (slow_total - typical_total) / typical_total * between_ns
    explained = further_ns / (attribution.tail_ns - attribution.typical_ns)
    if explained < _MOST:
        return None
    return Finding(
        Cause.MANY_STEPS,
        f"slow requests have {slow_total:.1f} steps and typical ones {typical_total:.1f}, which"
        f" explains {percent(min(explained, 1.0))} of the difference",
        "limit the number of steps, or end the request when further ones no longer help",
        tuple(evidence),
        "requests with as many steps are not slow",
        tuple(sorted(_OF_CALLS.intersection(table.names))),
    )


_OF_CALLS: Final = frozenset(SegmentName) - {
    *(SegmentName.DISPATCH_LAG, SegmentName.APPLICATION, SegmentName.CALL),
    *(SegmentName.EVENT_LOOP, SegmentName.UNATTRIBUTED),
}
"""Segments of calls."""

_MOST: Final = 0.5
"""Fraction of the difference from which the number of steps explains it."""


def call_chain(facts: Facts) -> Finding | None:
    """Return the finding on the calls of a request that run one after another."""
    table, leader = facts.table, facts.leader
    slow, typical = facts.means(table.chains.astype(float))
    earlier = {
        name: float(column[facts.attribution.tail].mean()) for name, column in table.earlier.items()
    }
    longest = max(earlier, key=earlier.__getitem__, default=None)
    evidence = [f"slow requests make {slow:.0f} calls one after another"]
    if longest is not None:
        evidence.append(
            f"of those before the last one, '{longest}' takes the longest:"
            f" {rounded_ms(earlier[longest])}"
        )
    if facts.attribution.by_excess and slow >= _MANY * typical:
        evidence[0] += f", typical ones {typical:.0f}"
        return Finding(
            Cause.MANY_STEPS,
            "slow requests make more calls than typical ones",
            "limit the number of calls, or end the request when further ones no longer help",
            tuple(evidence),
            "requests with as many calls are not slow",
            (leader.name,),
        )
    return Finding(
        Cause.CALL_CHAIN,
        "calls that run one after another",
        "merge the calls, or run them in parallel"
        if longest is None
        else f"remove, shorten or parallelise the call '{longest}'",
        tuple(evidence),
        "the calls depend on one another and each is as short as it can be",
        (leader.name,),
    )


_MANY: Final = 1.5
"""Ratio of the number of calls in slow requests to that in typical ones that explains them."""


_PLACES: Final = {
    "before": (
        Cause.CLIENT_PREPARATION,
        "the application's own work before the first step",
        "cache or shorten templating, tokenizing and client set-up",
        "a profile of the application shows nothing before the first step",
    ),
    "between": (
        Cause.FRAMEWORK,
        "the application and its framework between the steps",
        "shorten what runs between the steps: state that is stored, messages that are converted",
        "a profile of the application shows nothing between the steps",
    ),
    "after": (
        Cause.POST_PROCESSING,
        "the application's own work after the last step",
        "process the output in parts while it streams",
        "the work has to wait for the whole output",
    ),
}
"""Cause, summary, lever and refutation by the place of the application's own time."""


def application(facts: Facts) -> Finding | None:
    """Return the finding on the application's own time in its requests; ``None`` without calls."""
    if not facts.has_calls:
        return None
    by_excess = facts.attribution.by_excess

    def spent(place: str) -> tuple[float, float]:
        slow, typical = facts.means(facts.table.application_ns(place))
        return slow, 0.0 if isnan(typical) else typical

    def weight(place: str) -> float:
        slow, typical = spent(place)
        return slow - typical if by_excess else slow

    place = max(_PLACES, key=weight)
    cause, summary, lever, refuted_by = _PLACES[place]
    slow, typical = spent(place)
    evidence = f"slow requests spend {rounded_ms(slow)} {_WHERE[place]}"
    evidence += f", typical ones {rounded_ms(typical)}"
    return Finding(cause, summary, lever, (evidence,), refuted_by, (SegmentName.APPLICATION,))


_WHERE: Final = {
    "before": "before the first step",
    "between": "between the steps",
    "after": "after the last step",
}


def own_code(facts: Facts) -> Finding | None:
    """Return the finding on a stage of an application or a server, or the time before a call."""
    leader = facts.leader
    kind = facts.table.kinds.get(leader.name, leader.name)
    cause, lever = Cause.OWN_STAGE, f"shorten the stage '{leader.name}', or run it in parallel"
    if kind in STAGE_KINDS:
        cause, lever = _STAGE_CAUSES.get(Stage(kind), (cause, lever))
    noun = "tool" if cause is Cause.SLOW_TOOL else "stage"
    where = f"slow requests spend {rounded_ms(leader.mean_ns)} in {leader.name}"
    typical = f"typical ones {rounded_ms(leader.typical_ns)}"
    if leader.name == SegmentName.PREPARE:
        return Finding(
            Cause.CLIENT_PREPARATION,
            "the application's own work before the call",
            "cache or shorten templating, tokenizing and client set-up",
            (f"{where}, {typical}",),
            "a profile of the application shows nothing before the call",
            (leader.name,),
        )
    return Finding(
        cause,
        f"the {noun} '{leader.name}'",
        lever,
        (f"{where}, {typical}",),
        f"the {noun} '{leader.name}' is replaced by a constant and requests are as slow",
        (leader.name,),
    )


def dependency(facts: Facts) -> Finding | None:
    """Return the finding on HTTP exchanges with one host, outside any call."""
    leader = facts.leader
    host = host_of_exchange(leader.name)
    typical = f"typical ones {rounded_ms(leader.typical_ns)}"
    return Finding(
        Cause.SLOW_DEPENDENCY,
        f"HTTP requests of the application to {host}",
        f"cache the responses of {host}, request them in parallel, or speed up that service",
        (f"slow requests spend {rounded_ms(leader.mean_ns)} there, {typical}",),
        f"the responses of {host} are replaced by constants and requests are as slow",
        (leader.name,),
    )


def postprocessing(facts: Facts) -> Finding | None:
    """Return the finding on work after the last token."""
    return Finding(
        Cause.POST_PROCESSING,
        "work after the last token",
        "process the output in parts while it streams",
        (f"slow requests spend {rounded_ms(facts.leader.mean_ns)} after the last token",),
        "the work has to wait for the whole output",
        (SegmentName.POSTPROCESS, SegmentName.STREAM_CLOSE),
    )


def slow_consumer(facts: Facts) -> Finding | None:
    """Return the finding that the application reads its stream late."""
    ratio = facts.leader.mean_ns / max(facts.leader.typical_ns, 1.0)
    evidence = f"the application holds the stream for {rounded_ms(facts.leader.mean_ns)}"
    if ratio >= 1.5 and facts.leader.typical_ns > 0:
        evidence += f", {times(ratio)} as long as in typical requests"
    return Finding(
        Cause.SLOW_CONSUMER,
        "the application reads the stream more slowly than it arrives",
        "do less work per chunk, or read the stream in a task of its own",
        (evidence,),
        "reading without work per chunk takes as long",
        (SegmentName.CONSUMER,),
    )
