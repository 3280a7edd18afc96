"""
Types of the vocabulary: marks, segments, sources, outcomes, and timings that a server reports.

A *mark* is an instant, and a *segment* is the interval between two instants. The segments of one
timeline neither overlap nor leave a gap. Their lengths are integer nanoseconds, so the sum of the
lengths is always the duration of the timeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from latspan.errors import UnknownNameError


class Mark(StrEnum):
    """Instant in the life of a call, in the order in which they happen."""

    START = "start"
    SENT = "sent"
    HEADERS = "headers"
    FIRST_CHUNK = "first_chunk"
    FIRST_TOKEN = "first_token"
    FIRST_VISIBLE = "first_visible"
    LAST_TOKEN = "last_token"
    STREAM_END = "stream_end"
    DONE = "done"


class SegmentName(StrEnum):
    """Client segments, in the order in which a request passes through them."""

    DISPATCH_LAG = "dispatch_lag"
    APPLICATION = "application"
    PREPARE = "prepare"
    CALL = "call"
    RETRY = "retry"
    POOL_WAIT = "pool_wait"
    CONNECT = "connect"
    DNS = "dns"
    TCP = "tcp"
    TLS = "tls"
    SEND = "send"
    SERVER_WAIT = "server_wait"
    NETWORK = "network"
    GATEWAY = "gateway"
    QUEUE = "queue"
    MODEL_LOAD = "model_load"
    PREFILL = "prefill"
    REASONING = "reasoning"
    DECODE = "decode"
    CONSUMER = "consumer"
    STREAM_CLOSE = "stream_close"
    POSTPROCESS = "postprocess"
    EVENT_LOOP = "event_loop"
    UNATTRIBUTED = "unattributed"


class Phase(StrEnum):
    """Part of a load test that a request belongs to."""

    COLD = "cold"
    WARMUP = "warmup"
    MEASURED = "measured"
    DRAIN = "drain"


class Stage(StrEnum):
    """Kind of a stage, which is a named part of the time of a server or of the application."""

    PARSE = "parse"
    AUTH = "auth"
    RETRIEVE = "retrieve"
    TOOL = "tool"
    TOKENIZE = "tokenize"
    ROUTE = "route"
    QUEUE = "queue"
    MODEL_LOAD = "model_load"
    PREFILL = "prefill"
    DECODE = "decode"
    SAFETY = "safety"
    POSTPROCESS = "postprocess"
    SEND_STREAM = "send_stream"


STAGE_KINDS: Final[frozenset[str]] = frozenset(Stage)

SEGMENT_ORDER: Final[tuple[str, ...]] = tuple(SegmentName)
"""Every client segment in the order in which tables and waterfalls show them."""


_EXCHANGE: Final = "http "
_UNNAMED_PORTS: Final = frozenset({None, 80, 443})


def exchange_segment(host: str, port: int | None = None) -> str:
    """
    Return the name of the segment of an HTTP exchange inside a request, outside any call.

    Args:
        host: Host of the server.
        port: Port of the server; the default ports of HTTP and HTTPS are left out of the name.
    """
    shown = f"[{host}]" if ":" in host else host
    return f"{_EXCHANGE}{shown}" if port in _UNNAMED_PORTS else f"{_EXCHANGE}{shown}:{port}"


def host_of_exchange(segment: str) -> str | None:
    """Return the host in the name of the segment of an HTTP exchange, ``None`` for any other."""
    return segment.removeprefix(_EXCHANGE) if segment.startswith(_EXCHANGE) else None


class Source(StrEnum):
    """Source of a time, from the most certain to the least certain."""

    MEASURED = "measured"
    SERVER_REPORTED = "server_reported"
    ESTIMATED = "estimated"
    """Derived by a documented rule that can be wrong."""
    UNKNOWN = "unknown"
    """The interval was measured, but its parts are not known."""


_CERTAINTY: Final = list(Source)


def weaker(one: Source, other: Source) -> Source:
    """Return the less certain of two sources: the source of a sum of both."""
    return one if one is other else max(one, other, key=_CERTAINTY.index)


class Side(StrEnum):
    """Side of the network on which a segment was recorded."""

    CLIENT = "client"
    SERVER = "server"


class Kind(StrEnum):
    """
    Kind of a timeline: of a request, a call, an HTTP exchange or a stage, the outermost first.
    """

    REQUEST = "request"
    """A user-visible request: one that is served, or one opened with ``latspan.request``."""
    INNER_REQUEST = "inner_request"
    """A ``latspan.request`` inside another request of the process: it is a part of that one."""
    CALL = "call"
    """One logical call of a model's client library, retries included."""
    HTTP = "http"
    """One HTTP exchange outside any call."""
    STAGE = "stage"
    """A named part of the time of the application or of a server."""


KIND_NOUNS: Final[dict[Kind, tuple[str, str]]] = {
    Kind.REQUEST: ("request", "requests"),
    Kind.INNER_REQUEST: ("inner request", "inner requests"),
    Kind.CALL: ("call", "calls"),
    Kind.HTTP: ("HTTP exchange", "HTTP exchanges"),
    Kind.STAGE: ("stage", "stages"),
}
"""Noun of each kind for messages, singular and plural."""


def kind_named(name: str) -> Kind:
    """
    Return the kind of that name.

    Raises:
        UnknownNameError: There is no such kind.
    """
    try:
        return Kind(name)
    except ValueError:
        raise UnknownNameError(f"no kind '{name}'", hint=f"one of {', '.join(Kind)}") from None


class Outcome(StrEnum):
    """How a call ended; every call has exactly one."""

    COMPLETED = "completed"
    """The response is complete; a stream was received up to its end mark, as ``[DONE]``."""
    TRUNCATED = "truncated"
    """The body ended without its end mark."""
    CLOSED_EARLY = "closed_early"
    """
    The caller left the response with ``break``, ``close`` or the end of ``with``; not an error.
    """
    ABANDONED = "abandoned"
    """The response was never read, or was still open at shutdown."""
    CANCELLED = "cancelled"
    """The task or thread that waited for the response was cancelled."""
    TIMEOUT = "timeout"
    """A time limit of the client ended the call."""
    REJECTED = "rejected"
    """Status 429, or 503 with ``Retry-After``, after the last attempt."""
    ERROR = "error"
    """Any other failure."""

    @property
    def failed(self) -> bool:
        """Whether the call failed: ``truncated``, ``timeout``, ``rejected`` or ``error``."""
        return self in FAILURES


FAILURES: Final = frozenset({Outcome.TRUNCATED, Outcome.TIMEOUT, Outcome.REJECTED, Outcome.ERROR})
"""Outcomes of a call that failed."""

CUT: Final = frozenset({Outcome.CANCELLED, Outcome.CLOSED_EARLY, Outcome.ABANDONED})
"""Outcomes of a call that its caller ended before it was complete: the call was given up."""

NOT_READ: Final = frozenset({Outcome.CLOSED_EARLY, Outcome.ABANDONED})
"""Outcomes of a response that its caller had stopped reading, or had never read, at its end."""

NOT_WAITING: Final = frozenset({Outcome.COMPLETED, Outcome.CLOSED_EARLY, Outcome.ABANDONED})
"""
Outcomes of a stream whose caller was not waiting for a chunk at the end. If the caller of an
``abandoned`` stream was, the stream has a last read without a chunk.
"""


class Segment(NamedTuple):
    """
    One contiguous interval of a timeline.

    Args:
        name: A :class:`SegmentName`, or the name of a stage.
        start_ns: Nanoseconds since the timeline's start, at least 0.
        end_ns: Nanoseconds since the timeline's start, at least ``start_ns``.
        source: Source of its length.
    """

    name: str
    start_ns: int
    end_ns: int
    source: Source = Source.MEASURED

    @property
    def duration_ns(self) -> int:
        """Length in nanoseconds, at least 0."""
        return self.end_ns - self.start_ns


class Step(NamedTuple):
    """
    Step of a request: a model call, tool, retrieval or other stage, or an HTTP exchange inside it.

    Args:
        name: Name of the stage, of the span of the call, or of the exchange's segment.
        kind: ``call``, ``stage`` or ``http``.
        start_ns: Nanoseconds since the start of the request, at least 0.
        end_ns: Nanoseconds since the start of the request, at least ``start_ns``; ``None`` if the
            step was open when the request ended.
        parent: Number of the step that it began in, from 1; 0 if it began in none.
        merged: Number of steps of this name that it stands for, at least 1.
    """

    name: str
    kind: Kind
    start_ns: int
    end_ns: int | None
    parent: int = 0
    merged: int = 1


class SegmentTotal(NamedTuple):
    """
    Sum of all intervals of one name in one timeline.

    Args:
        name: The segment's name.
        duration_ns: The sum in nanoseconds.
        source: The least certain source among the intervals.
    """

    name: str
    duration_ns: int
    source: Source


def totals(segments: Iterable[Segment]) -> tuple[SegmentTotal, ...]:
    """Return one sum per segment name, in the order of first appearance."""
    summed: dict[str, SegmentTotal] = {}
    for name, start_ns, end_ns, source in segments:
        duration_ns = end_ns - start_ns
        before = summed.get(name)
        if before is not None:
            duration_ns += before.duration_ns
            source = weaker(before.source, source)  # noqa: PLW2901 - of both
        summed[name] = SegmentTotal(name, duration_ns, source)
    return tuple(summed.values())


_NO_NUMBERS: Final = MappingProxyType[str, float]({})


class ReportedTimings(NamedTuple):
    """
    Timings that one system, a model server or a gateway in front of it, reported in one response.

    All times are durations in nanoseconds, ``None`` if not reported. For an impossible value, an
    adapter returns a negative number. The later check against the client's times then rejects the
    report.

    Args:
        system: Evidence adapter that read the report, for example ``llama_cpp``.
        gateway_ns: Time that the gateway itself spent before the model server received the request.
        queue_ns: Wait before the server began to work on the request.
        model_load_ns: Time spent loading the model.
        prefill_ns: Processing of the prompt, up to the first token.
        decode_ns: From the first token to the end of generation.
        head_ns: From the request to the head of the response, including those of the times listed
            before this one that passed before the head. It is used only as a check.
        total_ns: Total time of the system for the response, waits and the parts above included. It
            is used as a check. For a response that is not streamed, it also separates the time of
            the system from the time of the network.
        queue_until_headers: Whether the server sends its response headers when it takes the request
            out of its queue. The wait for the headers is then an estimate of the queue. It includes
            the network and every gateway that reports no time.
        decode_to_last_token: Whether ``decode_ns`` ends with the last token and excludes the end of
            the response.
        has_unreported_front: Whether another component of the server, which reports no time,
            handles the request before the reported times begin. The rest of the wait is then not
            network time alone.
        raw: The system's own field names and finite values, recorded on the span under
            ``latspan.reported.*``.
    """

    system: str
    gateway_ns: int | None = None
    queue_ns: int | None = None
    model_load_ns: int | None = None
    prefill_ns: int | None = None
    decode_ns: int | None = None
    head_ns: int | None = None
    total_ns: int | None = None
    queue_until_headers: bool = False
    decode_to_last_token: bool = False
    has_unreported_front: bool = False
    raw: Mapping[str, float] = _NO_NUMBERS
