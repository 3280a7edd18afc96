"""
Segments of calls that other instrumentations traced, and of model servers' own spans.

A client's span has one instant inside, at most: the arrival of the first chunk. The time before it
is ``server_wait``, and includes the work of the client, its connection and its retries; the time
after it is ``decode``. Queue and prefill are separated only if the span of a model server in the
same trace reports them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from latspan import semconv
from latspan._model.evidence.gen_ai_latency import read_span
from latspan._model.metrics import TIME_PER_OUTPUT_TOKEN, TIME_TO_FIRST_TOKEN, MetricValue
from latspan._model.segments import SegmentName, Source
from latspan._model.timeline._reconcile import ObservedInstants, reconcile
from latspan._study.traces._dialects import INSTRUMENTATIONS, Dialect
from latspan._study.traces._spans import SpanRow, seconds_as_ns
from latspan._study.traces._tiling import Piece

_TIME_TO_FIRST_TOKEN: Final = f"{semconv.GEN_AI_LATENCY_PREFIX}time_to_first_token"


def _lacks(dialect: Dialect, more: str) -> str:
    return (
        f"calls of {INSTRUMENTATIONS[dialect]} have no segments, so the time before the first chunk"
        " is server_wait as a whole, with connecting and retries;"
        f" they have no time to the first token{more}"
    )


LACKS: Final = {
    Dialect.GEN_AI: _lacks(Dialect.GEN_AI, " and no chunk gaps"),
    Dialect.OPENINFERENCE: _lacks(Dialect.OPENINFERENCE, " and no chunk gaps"),
    Dialect.OPENLLMETRY: _lacks(
        Dialect.OPENLLMETRY, ", and chunk gaps that include chunks without a token"
    ),
    Dialect.MODEL_SERVER: (
        "spans of model servers begin when the server has received the request, so the client, the"
        " network and gateways are missing"
    ),
}
"""What records of each instrumentation do not have."""


def call_pieces(row: SpanRow) -> tuple[Piece, ...]:
    """Return the pieces that tile a call of another instrumentation."""
    duration_ns = row.end_ns - row.start_ns
    first_ns = seconds_as_ns(row.attributes.get(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK))
    if first_ns is None or not 0 < first_ns < duration_ns:
        return _nonempty(Piece(SegmentName.SERVER_WAIT, 0, duration_ns, Source.UNKNOWN))
    return (
        Piece(SegmentName.SERVER_WAIT, 0, first_ns, Source.UNKNOWN),
        Piece(SegmentName.DECODE, first_ns, duration_ns, Source.ESTIMATED),
    )


def chunk_gaps(row: SpanRow) -> tuple[MetricValue, ...]:
    """Return the gaps between the chunks of a call, estimates because a chunk may have no token."""
    return tuple(
        MetricValue(later - earlier, Source.ESTIMATED) for earlier, later in pairwise(row.chunks_ns)
    )


def server_pieces(row: SpanRow) -> tuple[Piece, ...]:
    """Return the pieces that tile the span of a model server, from the times that it reports."""
    duration_ns = row.end_ns - row.start_ns
    report = read_span(row.attributes)
    parts = (
        ()
        if report is None
        else (
            (SegmentName.QUEUE, report.queue_ns),
            (SegmentName.PREFILL, report.prefill_ns),
            (SegmentName.DECODE, report.decode_ns),
        )
    )
    known = [(name, max(0, length)) for name, length in parts if length is not None]
    # What is not reported comes first: the server parses and tokenizes before it queues.
    rest_ns = max(0, duration_ns - sum(length for _, length in known))
    tiles = [Piece(SegmentName.SERVER_WAIT, 0, rest_ns, Source.UNKNOWN)]
    for name, length in known:
        at_ns = tiles[-1].end_ns
        until_ns = min(at_ns + length, duration_ns)
        tiles.append(Piece(name, at_ns, until_ns, Source.SERVER_REPORTED))
    return _nonempty(*tiles)


def server_metrics(row: SpanRow) -> dict[str, MetricValue]:
    """Return the metrics that the span of a model server reports; empty for any other span."""
    if row.dialect is not Dialect.MODEL_SERVER:
        return {}
    metrics: dict[str, MetricValue] = {}
    first_ns = seconds_as_ns(row.attributes.get(_TIME_TO_FIRST_TOKEN))
    if first_ns is not None:
        metrics[TIME_TO_FIRST_TOKEN] = MetricValue(first_ns, Source.SERVER_REPORTED)
    report = read_span(row.attributes)
    tokens = row.attributes.get(semconv.GEN_AI_USAGE_OUTPUT_TOKENS)
    decode_ns = None if report is None else report.decode_ns
    if decode_ns is not None and decode_ns >= 0 and isinstance(tokens, int) and tokens > 1:
        per_token_ns = round(decode_ns / (tokens - 1))
        metrics[TIME_PER_OUTPUT_TOKEN] = MetricValue(per_token_ns, Source.SERVER_REPORTED)
    return metrics


def with_server(
    tiles: Sequence[Piece], server: SpanRow | None, *, is_latspans: bool
) -> tuple[Piece, ...]:
    """
    Return the pieces of a call, with its wait for the server divided as the server's span reports.

    The report is used only if it fits the times of the call, as that of a response would be.

    Args:
        tiles: Pieces that tile the call.
        server: Span of the model server inside the call; ``None`` without one.
        is_latspans: Whether the wait begins when the request has been sent. The rest of it is then
            the network's, and otherwise it includes the client's own work.
    """
    report = None if server is None else read_span(server.attributes)
    waits = [tile for tile in tiles if tile.name == SegmentName.SERVER_WAIT]
    if report is None or len(waits) != 1:
        # Without one wait, the response has reported its times, or there were several attempts.
        return tuple(tiles)
    (wait,) = waits
    end_ns = tiles[-1].end_ns
    sending = [tile.start_ns for tile in tiles if tile.name == SegmentName.SEND]
    streamed = any(tile.name == SegmentName.DECODE for tile in tiles)
    seen = ObservedInstants(
        sending_ns=sending[-1] if sending else wait.start_ns,
        begin_ns=wait.start_ns,
        first_ns=wait.end_ns,
        last_ns=end_ns,
        over_ns=end_ns,
        headers_ns=None,
        streamed=streamed,
    )
    reconciled = reconcile([report], seen)
    if reconciled.rejected:
        return tuple(tiles)
    parts: list[tuple[str, Source, int]] = []
    left_ns = wait.end_ns - wait.start_ns
    for name, reported_ns in reconciled.before:
        length = min(reported_ns, left_ns)
        left_ns -= length
        parts.append((name, Source.SERVER_REPORTED, length))
    if reconciled.covers and is_latspans:
        parts.append((SegmentName.NETWORK, Source.ESTIMATED, left_ns))
    else:
        parts.insert(0, (SegmentName.SERVER_WAIT, wait.source, left_ns))
    divided: list[Piece] = []
    at_ns = wait.start_ns
    for name, source, length in parts:
        divided.append(Piece(name, at_ns, at_ns + length, source))
        at_ns += length
    at = tiles.index(wait)
    return _nonempty(*tiles[:at], *divided, *tiles[at + 1 :])


def _nonempty(*tiles: Piece) -> tuple[Piece, ...]:
    return tuple(tile for tile in tiles if tile.end_ns > tile.start_ns)
