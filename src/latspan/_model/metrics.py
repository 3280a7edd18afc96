"""
Definitions of all metrics: name, unit, formula, when it is undefined, and source.

The formulas are functions of marks in nanoseconds; :mod:`latspan._model.timeline` defines which
marks a call has and how certain each of them is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise, repeat
from operator import mul, sub
from typing import Final, NamedTuple

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_MS
from latspan._base.spelling import nearest
from latspan._model.segments import Kind, SegmentName, Source
from latspan._model.units import BILLIONTHS, MetricUnit
from latspan.errors import UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """
    Expectations of a reader of a stream. Times are nanoseconds.

    Args:
        stall_ns: Longest chunk gap that does not count as a stall, at least 0.
        first_token_ns: Deadline of the first token, since the start; at least 0.
        token_ns: Time from one token's deadline to the next one's, more than 0.
        reading_ns: Time the reader takes to read a token, at least 0.
    """

    stall_ns: int = 500 * NS_PER_MS
    first_token_ns: int = 500 * NS_PER_MS
    token_ns: int = 200 * NS_PER_MS
    reading_ns: int = 200 * NS_PER_MS


DEFAULT_EXPECTATIONS: Final = Expectations()
"""Defaults for chat and a fast reader: first token within 0.5 s, then five tokens per second."""


DURATION: Final = "duration"
TIME_TO_FIRST_CHUNK: Final = "time_to_first_chunk"
TIME_TO_FIRST_TOKEN: Final = "time_to_first_token"
TIME_TO_FIRST_VISIBLE_TOKEN: Final = "time_to_first_visible_token"
TIME_PER_OUTPUT_TOKEN: Final = "time_per_output_token"
CHUNK_GAP: Final = "chunk_gap"
CHUNK_GAP_MAX: Final = "chunk_gap_max"
"""Names of the metrics that code computes or treats in its own way; the others have only traits."""


class Trait(Enum):
    """Property of a metric, on which its treatment depends."""

    FROM_START = auto()
    """Measured from the start of a request, and therefore also from its scheduled time."""
    OF_REQUESTS = auto()
    """Defined for a user request. All others belong to calls."""
    FIRST_WAIT = auto()
    """Time to the first of something in a stream; until it arrives, it grows with the wait."""
    FIRST_TOKEN = auto()
    """Time to a first token. A stream without a token misses every target for it."""
    PACE = auto()
    """Pace of a stream. A request with several calls has none of its own."""
    GROWS = auto()
    """It can only grow while the stream lasts."""
    MORE_IS_BETTER = auto()
    SUMMARISED = auto()
    """Shown wherever the metrics of a call are summarised."""
    FELT_SPEED = auto()
    """Shown in the table of the felt speed."""
    DIVISIBLE = auto()
    """A diagnosis can divide it among segments, which add up to it."""


@dataclass(frozen=True, slots=True)
class Exported:
    """
    A metric as OTLP metrics have it.

    Args:
        name: Name of the exported histogram of its values.
        description: Description of that histogram, one sentence.
        at_least: Name of the histogram of its lower bounds; empty if there is none.
        at_least_description: Description of that histogram.
    """

    name: str
    description: str
    at_least: str = ""
    at_least_description: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """
    A number derived from the marks of one request.

    Snapshots, documents and recordings have each metric of :data:`LATENCY_METRICS`. Its traits
    place it in tables, its last two fields in spans and exports.

    Args:
        name: The name in snapshots, files and reports.
        unit: ``s`` for times (stored as integer nanoseconds), ``1`` for counts, ``ratio`` for
            ratios (stored as integer billionths).
        formula: Formula in terms of marks.
        undefined: Condition under which the metric has no value.
        definition: Source of the definition.
        aliases: Other accepted names; the first one is the abbreviation.
        distribution: Whether one request can have several values of the metric.
        label: Its name in tables; its name in files if empty.
        traits: Its properties.
        attribute: Attribute that a span has for it; empty if there is none.
        exported: The metric in OTLP; ``None`` if it is not exported.
    """

    name: str
    unit: MetricUnit
    formula: str
    undefined: str
    definition: str
    aliases: tuple[str, ...] = ()
    distribution: bool = False
    label: str = ""
    traits: frozenset[Trait] = frozenset()
    attribute: str = ""
    exported: Exported | None = None

    @property
    def heading(self) -> str:
        """Its name in tables."""
        return self.label or self.name

    @property
    def abbreviation(self) -> str:
        """Its shortest name."""
        return self.aliases[0] if self.aliases else self.name


class MetricValue(NamedTuple):
    """
    One value of a metric.

    Args:
        value: Nanoseconds for a metric of unit ``s``, a count for unit ``1``, billionths for
            ``ratio``.
        source: Certainty of the marks that it is computed from.
    """

    value: int
    source: Source = Source.MEASURED


def _traits(*traits: Trait) -> frozenset[Trait]:
    return frozenset(traits)


def _by_name(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


_NO_SCHEDULE: Final = (
    "no token was received, the number of tokens is not known, the call has several choices,"
    " or the stream was buffered on its way"
)

LATENCY_METRICS: Final = _by_name(
    Metric(
        DURATION,
        "s",
        "done - start",
        "never",
        "OpenTelemetry GenAI conventions, gen_ai.client.operation.duration",
        label="duration",
        traits=_traits(Trait.FROM_START, Trait.OF_REQUESTS, Trait.SUMMARISED, Trait.DIVISIBLE),
    ),
    Metric(
        TIME_TO_FIRST_CHUNK,
        "s",
        "first_chunk - start",
        "the call does not stream, or no chunk was received",
        "OpenTelemetry GenAI conventions, gen_ai.response.time_to_first_chunk",
        ("ttfc",),
        traits=_traits(Trait.FROM_START, Trait.FIRST_WAIT),
    ),
    Metric(
        TIME_TO_FIRST_TOKEN,
        "s",
        "first_token - start; the first chunk that contains text, reasoning, tool-call arguments,"
        " a refusal or audio",
        "the call does not stream, or no token was received",
        "latspan; the token-bearing rule of guidellm and genai-perf",
        ("ttft",),
        label="TTFT, first token",
        traits=_traits(
            Trait.FROM_START,
            Trait.FIRST_WAIT,
            Trait.FIRST_TOKEN,
            Trait.SUMMARISED,
            Trait.DIVISIBLE,
        ),
        attribute=semconv.LATSPAN_TIME_TO_FIRST_TOKEN,
        exported=Exported(
            semconv.METRIC_TIME_TO_FIRST_TOKEN,
            "From the start of a call to its first chunk that bears a token",
            semconv.METRIC_TIME_TO_FIRST_TOKEN_AT_LEAST,
            "Time that a call without a first token waited, until it was given up or failed",
        ),
    ),
    Metric(
        TIME_TO_FIRST_VISIBLE_TOKEN,
        "s",
        "first_visible - start; like time_to_first_token, without reasoning",
        "the call does not stream, or nothing visible was received",
        "latspan; time to first output token in guidellm",
        ("ttfv",),
        label="until something shows (TTFV)",
        traits=_traits(
            Trait.FROM_START,
            Trait.OF_REQUESTS,
            Trait.FIRST_WAIT,
            Trait.FIRST_TOKEN,
            Trait.FELT_SPEED,
            Trait.DIVISIBLE,
        ),
        attribute=semconv.LATSPAN_TIME_TO_FIRST_VISIBLE_TOKEN,
        exported=Exported(
            semconv.METRIC_TIME_TO_FIRST_VISIBLE_TOKEN,
            "From the start to the first token that is not reasoning",
            semconv.METRIC_TIME_TO_FIRST_VISIBLE_TOKEN_AT_LEAST,
            "Time that was waited without a visible token, until the wait was given up or failed",
        ),
    ),
    Metric(
        TIME_PER_OUTPUT_TOKEN,
        "s",
        "(last_token - first_token) / (n - 1), n the number of output tokens, without"
        " reasoning tokens that are not streamed",
        "n < 2, no token count, several choices, or all tokens in one chunk",
        "MLPerf inference rules; (E2E - TTFT) / (n - 1) where the stream ends with its tokens",
        ("tpot",),
        label="TPOT, per output token",
        traits=_traits(Trait.PACE, Trait.SUMMARISED, Trait.DIVISIBLE),
        attribute=semconv.LATSPAN_TIME_PER_OUTPUT_TOKEN,
        exported=Exported(
            semconv.METRIC_TIME_PER_OUTPUT_TOKEN,
            "Time per output token after the first",
            semconv.METRIC_TIME_PER_OUTPUT_TOKEN_AT_LEAST,
            "Streams without a time per output token: 0 if given up, the whole time if failed",
        ),
    ),
    Metric(
        CHUNK_GAP,
        "s",
        "arrival of a token-bearing chunk - arrival of the previous one",
        "fewer than two token-bearing chunks, or the stream was buffered on its way",
        "latspan; a chunk is not a token, so this is not the inter-token latency",
        distribution=True,
        label="gap between chunks",
        exported=Exported(
            semconv.METRIC_CHUNK_GAP,
            "Between the arrivals of two successive chunks that bear tokens",
            semconv.METRIC_CHUNK_GAP_AT_LEAST,
            "Wait for the next token in which a stream was given up or failed",
        ),
    ),
    Metric(
        CHUNK_GAP_MAX,
        "s",
        "the longest chunk_gap of a request",
        "same as chunk_gap",
        "latspan",
        label="longest gap",
        traits=_traits(Trait.PACE, Trait.GROWS, Trait.FELT_SPEED, Trait.DIVISIBLE),
        attribute=semconv.LATSPAN_CHUNK_GAP_MAX,
    ),
    Metric(
        "stall_count",
        "1",
        "number of chunk gaps longer than the stall limit (500 ms by default)",
        "same as chunk_gap",
        "latspan",
        traits=_traits(Trait.GROWS),
        attribute=semconv.LATSPAN_STALL_COUNT,
    ),
    Metric(
        "stall_duration",
        "s",
        "total time by which the stalls exceed the stall limit",
        "same as chunk_gap",
        "latspan",
        traits=_traits(Trait.GROWS),
        attribute=semconv.LATSPAN_STALL_DURATION,
        exported=Exported(
            semconv.METRIC_STALL_DURATION,
            "Time by which a stream's gaps exceeded the stall limit, summed over a request",
            semconv.METRIC_STALL_DURATION_AT_LEAST,
            "Stalls of a stream up to the time at which it was given up or failed",
        ),
    ),
    Metric(
        "stall_ratio",
        "ratio",
        "stall_duration / (last_token - first_token)",
        "same as chunk_gap, or all chunks arrived at the same instant",
        "latspan; the rebuffering ratio of video players",
        label="stalled, of the writing time",
        traits=_traits(Trait.FELT_SPEED),
        attribute=semconv.LATSPAN_STALL_RATIO,
        exported=Exported(
            semconv.METRIC_STALL_RATIO,
            "Share of the time from the first token to the last that exceeded the stall limit",
        ),
    ),
    Metric(
        "fluidity",
        "ratio",
        "met deadlines / all deadlines; the first token is due first_token_target_ms after start,"
        " each further token token_target_ms after the previous deadline; a late token misses each"
        " deadline that passed before it arrived, and the next deadline is token_target_ms after"
        " that arrival",
        _NO_SCHEDULE,
        "fluidity-index, arXiv 2507.09019 (Etalon), algorithm 1",
        label="fluidity, tokens on time",
        traits=_traits(Trait.MORE_IS_BETTER, Trait.FELT_SPEED),
        attribute=semconv.LATSPAN_FLUIDITY,
        exported=Exported(
            semconv.METRIC_FLUIDITY,
            "Share of the deadlines of a stream's tokens that were met; higher is better",
        ),
    ),
    Metric(
        "buffer_needed",
        "s",
        "maximum of arrival - first_visible - k / r over all tokens, at least 0; k is the number"
        " of tokens since the first visible one, r is reading_tokens_per_s",
        f"{_NO_SCHEDULE}, or nothing visible was received",
        "latspan; the start-up delay of video players",
        label="wait before reading, to read on",
        traits=_traits(Trait.GROWS, Trait.FELT_SPEED),
        attribute=semconv.LATSPAN_BUFFER_NEEDED,
        exported=Exported(
            semconv.METRIC_BUFFER_NEEDED,
            "Delay after the first visible token with which a reader never waits",
        ),
    ),
)
"""Metrics of where the time of a request went, and of how smoothly it streamed."""


def _with(trait: Trait) -> tuple[str, ...]:
    return tuple(name for name, metric in LATENCY_METRICS.items() if trait in metric.traits)


FROM_START: Final = frozenset(_with(Trait.FROM_START))
OF_REQUESTS: Final = _with(Trait.OF_REQUESTS)
SUMMARISED: Final = {Kind.CALL: _with(Trait.SUMMARISED), Kind.REQUEST: OF_REQUESTS}
"""Metrics of each kind of unit that every summary shows, in their order."""
OF_PACE: Final = _with(Trait.PACE)
FIRST_WAITS: Final = frozenset(_with(Trait.FIRST_WAIT))
FIRST_TOKENS: Final = _with(Trait.FIRST_TOKEN)
GROWING: Final = frozenset(_with(Trait.GROWS))
MORE_IS_BETTER: Final = frozenset(_with(Trait.MORE_IS_BETTER))
FELT_SPEED: Final = _with(Trait.FELT_SPEED)
DIVISIBLE: Final = _with(Trait.DIVISIBLE)

SPAN_ATTRIBUTES: Final = {
    name: metric.attribute for name, metric in LATENCY_METRICS.items() if metric.attribute
}
"""Attribute that a span has for each of latspan's own metrics, by the metric's name."""

_USAGE: Final = "OpenTelemetry GenAI conventions, gen_ai.usage.*"

TOKEN_METRICS: Final = _by_name(
    Metric("input_tokens", "1", "prompt tokens, cached ones included", "no token count", _USAGE),
    Metric(
        "cached_tokens",
        "1",
        "the part of input_tokens that came from the provider's prompt cache",
        "no token count",
        _USAGE,
    ),
    Metric("output_tokens", "1", "generated tokens, reasoning included", "no token count", _USAGE),
    Metric(
        "reasoning_tokens",
        "1",
        "the part of output_tokens that was reasoning",
        "no token count",
        _USAGE,
    ),
)
"""Token counts of a request; their source is a :class:`~latspan._model.tokens.TokenSource`."""

EVIDENCE_METRICS: Final = _by_name(
    Metric(
        "evidence_rejected",
        "1",
        "number of time reports of servers and gateways that do not fit the measurement",
        "all reports fit, or there were none",
        "latspan",
    ),
    Metric(
        "buffered",
        "1",
        "1 if a stream arrived in one burst and its server reports a longer generation",
        "the stream arrived as it was generated, or the server does not report that time",
        "latspan",
    ),
)
"""Counts of implausible reports and of buffered streams; query the count, not the values."""

SERVER_METRICS: Final = _by_name(
    Metric(
        "degraded",
        "1",
        "1 if the response was degraded: another model, a feature off, or output cut",
        "not marked as degraded",
        "latspan",
    ),
)
"""Flags that servers set on their own requests; query the count, not the values."""

_CONVENTIONS: Final = f"OpenTelemetry GenAI conventions v{semconv.GENAI_REVISION}"

CONVENTION_METRICS: Final = _by_name(
    Metric(
        semconv.METRIC_OPERATION_DURATION,
        "s",
        "done - start",
        "no inference call, or another instrumentation emits it",
        _CONVENTIONS,
    ),
    Metric(
        semconv.METRIC_OPERATION_TIME_TO_FIRST_CHUNK,
        "s",
        "first_chunk - start",
        "same as the duration; the call does not stream, or no chunk was received",
        _CONVENTIONS,
    ),
    Metric(
        semconv.METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK,
        "s",
        "time between the returns of two successive reads of chunks, token-bearing or not;"
        " includes the caller's own time between them",
        "same as the duration; fewer than two chunks",
        _CONVENTIONS,
        distribution=True,
    ),
    Metric(
        semconv.METRIC_TOKEN_USAGE,
        "1",
        f"input and output tokens, distinguished by {semconv.GEN_AI_TOKEN_TYPE}",
        "same as the duration, or no token count",
        _CONVENTIONS,
        distribution=True,
    ),
    Metric(
        semconv.METRIC_SERVER_REQUEST_DURATION,
        "s",
        "done - start of a request for which the server set a model",
        "no model was set for the request",
        _CONVENTIONS,
    ),
    Metric(
        semconv.METRIC_SERVER_TIME_TO_FIRST_TOKEN,
        "s",
        "first token that the server produced - start of the request: queue and prefill",
        "same as the duration; the request failed, or no token was produced",
        _CONVENTIONS,
    ),
    Metric(
        semconv.METRIC_SERVER_TIME_PER_OUTPUT_TOKEN,
        "s",
        "(duration - time to the first token) / (n - 1)",
        "same as the time to the first token; n < 2",
        _CONVENTIONS,
    ),
)
"""Metrics of the GenAI conventions, by the names that they are emitted under."""

METRICS: Final = {
    **LATENCY_METRICS,
    **TOKEN_METRICS,
    **EVIDENCE_METRICS,
    **SERVER_METRICS,
    **CONVENTION_METRICS,
}
"""All metrics that a snapshot can be queried for."""

_BY_ANY_NAME: Final = {
    name: metric for metric in METRICS.values() for name in (metric.name, *metric.aliases)
}

METRIC_NAMES: Final = frozenset(_BY_ANY_NAME)
"""Names and aliases of all metrics."""


def metric_named(name: str) -> Metric:
    """
    Return the metric of that name or alias.

    Raises:
        UnknownNameError: There is no such metric; the hint lists the nearest names, or all.
    """
    try:
        return _BY_ANY_NAME[name]
    except KeyError:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            hint = "the name comes first, for example percentile('ttft', 95)"
            raise UnknownNameError(f"{name!r} is not the name of a metric", hint=hint) from None
        if name in tuple(SegmentName):
            raise UnknownNameError(
                f"no metric '{name}': it is a segment",
                hint="name a metric, for example time_to_first_token: a diagnosis divides its time"
                f" into segments, and the method segment('{name}') returns the times of this one",
            ) from None
        close = nearest(name, _BY_ANY_NAME)
        hint = f"did you mean '{close}'?" if close else f"one of {', '.join(METRICS)}"
        raise UnknownNameError(f"no metric '{name}'", hint=hint) from None


def unit_of(name: str) -> MetricUnit:
    """Return the unit of a metric; segments, and tags of other programs, are times."""
    metric = METRICS.get(name)
    return "s" if metric is None else metric.unit


def time_per_output_token(generation_ns: int, output_tokens: int) -> int | None:
    """
    Return the mean time per token after the first, in nanoseconds rounded to the nearest.

    Args:
        generation_ns: Time from the first token to the last.
        output_tokens: Number of tokens received, reasoning included.

    Returns:
        ``None`` if it is undefined: fewer than two tokens.
    """
    if output_tokens < 2:
        return None
    return round(generation_ns / (output_tokens - 1))


def stalls(
    gaps_ns: Collection[int], limit_ns: int = DEFAULT_EXPECTATIONS.stall_ns
) -> tuple[int, int, int | None]:
    """
    Return how many gaps exceed ``limit_ns``, by how much in total, and the stall ratio.

    Args:
        gaps_ns: Chunk gaps in nanoseconds.
        limit_ns: Longest gap that does not count as a stall.

    Returns:
        The number of stalls; the total time by which they exceed the limit, in nanoseconds; and the
        stall ratio: that time divided by the sum of all gaps, which is the time from the first
        token to the last. The ratio is in [0, 1,000,000,000) billionths, ``None`` if the sum is 0.
    """
    count = excess_ns = 0
    if max(gaps_ns, default=0) > limit_ns:
        for gap_ns in gaps_ns:
            if gap_ns > limit_ns:
                count += 1
                excess_ns += gap_ns - limit_ns
    generation_ns = sum(gaps_ns)
    ratio = round(excess_ns * BILLIONTHS / generation_ns) if generation_ns > 0 else None
    return count, excess_ns, ratio


def tokens_before(chunks: int, tokens: int) -> Sequence[int]:
    """
    Return how many whole tokens came before each chunk, and as last element the total.

    The server does not report which tokens are in which chunk, so they are spread evenly. If there
    are as many tokens as chunks, each chunk has one: that is ``range(tokens + 1)``, and exact.

    Args:
        chunks: Token-bearing chunks of a stream, at least 1.
        tokens: Number of tokens in all of them together, at least 1.
    """
    return [at * tokens // chunks for at in range(chunks + 1)]


def fluidity(
    arrivals_ns: Iterable[int], before: Sequence[int], *, due_ns: int, token_ns: int
) -> int:
    """
    Return the fraction of the tokens' deadlines that were met, in billionths.

    Each token is due ``token_ns`` after the previous deadline, so early arrivals build up slack. A
    late token misses its own deadline and each further one that passes before it arrives, and the
    next token is due ``token_ns`` after its arrival. With ``l`` of ``n`` tokens late, and ``m``
    deadlines missed, the result is ``(n - l) / (n - l + m)``.

    Args:
        arrivals_ns: Arrivals of the token-bearing chunks, in order. The tokens of a chunk arrive
            together and are due one after the other; a token split over several chunks arrives
            with the last.
        before: Result of :func:`tokens_before`.
        due_ns: Deadline of the first token, on the same clock: Etalon's ``D_p`` after the start.
        token_ns: Etalon's ``D_d``, more than 0.

    Returns:
        In [0, 1,000,000,000].

    Source: arXiv 2507.09019 (Etalon; Metron in arXiv 2407.07000), algorithm 1, restated with
    deadlines instead of slack.
    """
    # The arrival of each chunk minus the time that the tokens before it take at a steady pace.
    behind = list(map(sub, arrivals_ns, map(mul, before, repeat(token_ns))))
    if max(behind) <= due_ns:
        return BILLIONTHS
    late = missed = 0
    for behind_ns, (first, following) in zip(behind, pairwise(before), strict=True):
        late_ns = behind_ns - due_ns
        if late_ns > 0 and following > first:
            late += 1
            missed += late_ns // token_ns + 1
            due_ns += late_ns
    met = before[-1] - late
    return round(met * BILLIONTHS / (met + missed))


def buffer_needed(arrivals_ns: Iterable[int], before: Sequence[int], *, reading_ns: int) -> int:
    """
    Return the delay after the first chunk at which a reader must begin so as never to wait.

    Args:
        arrivals_ns: Arrivals of the token-bearing chunks from the first visible one on, in order.
        before: Result of :func:`tokens_before`, from that chunk on.
        reading_ns: Time the reader takes to read a token, at least 0.

    Returns:
        Nanoseconds, at least 0.
    """
    behind = list(map(sub, arrivals_ns, map(mul, before, repeat(reading_ns))))
    return max(behind) - behind[0]
