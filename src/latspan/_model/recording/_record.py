"""One finished request as data: the input of every recorder, report and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from latspan import semconv
from latspan._model.censoring import (
    CensoredValue,
    ValueState,
    open_gap_ns,
    open_segments,
    state_of,
    waited_ns,
)
from latspan._model.metrics import (
    CHUNK_GAP_MAX,
    DURATION,
    FIRST_TOKENS,
    FIRST_WAITS,
    TIME_TO_FIRST_TOKEN,
    MetricValue,
)
from latspan._model.segments import CUT, Kind, Outcome, Segment, SegmentTotal, Side, Step, totals
from latspan._model.tokens import UNKNOWN_TOKENS, TokenCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """
    Result of one request, call, HTTP exchange or stage after it has ended.

    Args:
        name: Name of its span, for example ``chat gpt-4o``.
        kind: Kind of the timeline.
        side: The side of the network it was recorded on.
        outcome: How it ended.
        start_epoch_ns: Unix time of its start, in nanoseconds.
        duration_ns: ``done - start``.
        segments: Contiguous intervals that tile ``[0, duration_ns]`` exactly.
        metrics: Values by metric name; a metric that is undefined for this request is absent.
        chunk_gaps: Every gap between two token-bearing chunks, in order.
        tokens: Token counts and their source.
        attributes: Attributes that identify the series: ``inference_path``, ``route``, ``model``,
            ``provider``, ``traffic_class``, ``tenant``, and the application's own attributes that
            the setting ``series_attributes`` names. An attribute that is not set is absent.
        trace_id: ID of its trace, 0 if there is none.
        span_id: ID of its span, 0 if there is none.
        reports: Segments that are recorded in histograms, ``None`` for all of them. A request, a
            call and an HTTP exchange record all. A stage records its own time, without the steps
            inside it, and an inner request none: the request around it records the same time.
        steps: Steps of a request or stage, whether it waited for them or not, in the order of their
            starts; empty for a call or an HTTP exchange.
        segment_steps: Number of the step of each segment, from 1, and 0 if it is in none; empty if
            there are no steps.
        sampled: Whether it was already decided, when the request ended, that its trace is kept.
        convention: Attributes of the GenAI conventions' metrics, under the names in
            :data:`~latspan.semconv.CONVENTION_ATTRIBUTES` as far as known. Empty for a record that
            is neither a call nor a served request with a model, and for a call whose metrics
            another active instrumentation emits.
        marks_ns: Instants of the known marks of a call, in nanoseconds since its start; empty
            unless latspan writes a recording, for example with ``record_dir``.
        scope_id: Number of a request or stage, unique in its process and greater than 0; 0 for a
            call or an HTTP exchange, which contain no others.
        parent_id: Number of the request or stage that it is directly inside of, 0 if there is none.
        root_id: Number of the outermost request or stage that contains this one; its own number if
            no request or stage contains it. 0 for a call or an HTTP exchange outside any request or
            stage.
        ratio: Fraction of the records that its recording kept when it was written, in (0, 1]; 1 if
            all were kept.
        details: Attributes of its span that the other fields do not repeat: those of the
            application, and facts on the request and the response. Never content. If records are
            not written, only what a diagnosis of a request or stage needs.
        streamed: Whether the response was requested as a stream; for a request, whether a call
            inside it was. ``None`` if that is unknown, as in records of older releases, and for a
            request that ended before its first call.
        late: Names of the attributes of a request or stage whose values were set when the latency
            of a part of it was known already, so that they may follow from the latency: after the
            first visible token or the end of a call inside it, or after the first token that it
            tracked. Without both, after the end of a stage inside it. Attributes of a call are
            known at its start.
        output_chunk_gaps_ns: One value per chunk after the first, token-bearing or not, in order:
            nanoseconds from the instant at which the read of the previous chunk returned to the
            instant at which the read of this chunk returned.
            Source: the conventions' ``gen_ai.client.operation.time_per_output_chunk``.
    """

    name: str
    kind: Kind
    outcome: Outcome
    start_epoch_ns: int
    duration_ns: int
    segments: tuple[Segment, ...]
    metrics: Mapping[str, MetricValue] = field(default_factory=dict[str, MetricValue])
    chunk_gaps: tuple[MetricValue, ...] = ()
    tokens: TokenCounts = UNKNOWN_TOKENS
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    side: Side = Side.CLIENT
    trace_id: int = 0
    span_id: int = 0
    reports: tuple[Segment, ...] | None = None
    sampled: bool = False
    convention: Mapping[str, str] = field(default_factory=dict[str, str])
    output_chunk_gaps_ns: tuple[int, ...] = ()
    marks_ns: Mapping[str, int] = field(default_factory=dict[str, int])
    scope_id: int = 0
    parent_id: int = 0
    root_id: int = 0
    ratio: float = 1.0
    details: Mapping[str, object] = field(default_factory=dict[str, object])
    streamed: bool | None = None
    late: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    segment_steps: tuple[int, ...] = ()

    @property
    def segment_totals(self) -> tuple[SegmentTotal, ...]:
        """One sum per segment name, in the order of first appearance."""
        return totals(self.segments)

    @property
    def is_streamed(self) -> bool | None:
        """
        Whether the response was requested as a stream; ``None`` if that is unknown.

        Records of older releases do not state it; then their details and metrics may show it.
        """
        if self.streamed is not None:
            return self.streamed
        stated = self.details.get(semconv.GEN_AI_REQUEST_STREAM)
        if isinstance(stated, bool):
            return stated
        # A first chunk alone does not show it: other instrumentations record no first token.
        if any(metric in self.metrics for metric in FIRST_TOKENS):
            return True
        return None if self.kind in _MAY_STREAM else False

    def state(self, metric: str) -> ValueState:
        """Return what is known of a metric of this record; see :mod:`latspan._model.censoring`."""
        return state_of(
            metric,
            self.outcome,
            has_value=metric in self.metrics,
            streamed=self.is_streamed,
            kind=self.kind,
        )

    def censored(self, metric: str) -> CensoredValue | None:
        """
        Return the interval that contains the value of a metric; ``None`` if it does not apply.

        Args:
            metric: Name of a metric that has at most one value per request.
        """
        state = self.state(metric)
        return CensoredValue.of(state, self.lower_bound(metric) if state in _BOUNDED else None)

    def lower_bound(self, metric: str) -> int:
        """Return the value of a metric that is exact, or the lower bound of one that is cut."""
        if metric == DURATION:
            return self.duration_ns
        found = self.metrics.get(metric)
        if metric == CHUNK_GAP_MAX and self.outcome in CUT:
            return max(0 if found is None else found.value, self.open_gap_ns or 0)
        if found is None:
            return waited_ns(self.segments) if metric in FIRST_WAITS else 0
        return found.value

    @property
    def open_gap_ns(self) -> int | None:
        """Time for which a stream that was cut or failed had waited for its next token."""
        first = self.metrics.get(TIME_TO_FIRST_TOKEN)
        first_ns = None if first is None else first.value
        return open_gap_ns(self.segments, self.outcome, first_token_ns=first_ns)

    @property
    def open_segments(self) -> frozenset[str]:
        """Segments that would have gone on if the timeline had not ended: lower bounds."""
        has_token = TIME_TO_FIRST_TOKEN in self.metrics
        return open_segments(self.segments, self.outcome, self.kind, has_token=has_token)


_MAY_STREAM: Final = frozenset({Kind.CALL, Kind.REQUEST, Kind.INNER_REQUEST})
_BOUNDED: Final = frozenset({ValueState.EXACT, ValueState.AT_LEAST})
