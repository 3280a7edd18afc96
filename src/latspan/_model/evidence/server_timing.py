"""
The standard ``Server-Timing`` header, as servers with latspan and other servers send it.

The entries ``queue``, ``model_load``, ``prefill`` and ``decode``, latspan's names for stages, are
read in milliseconds; other entries are set on the span as reported. The header is sent before the
body, so in a stream it covers only the time until then: a server that delays it until the first
token reports its queue and prefill. ``decode`` in a stream's header is not read, because it cannot
be complete. A body may have the same text in the field ``server_timing``, which latspan defines:
the last chunk of a stream can report all entries. If present, it is read instead of the header.

``total`` is the time since the request arrived, in stages or outside them. Its remainder beyond the
four stages is the server's time too, for example for authentication and tokenizing. Only
``send_stream`` is not: in it, the server waited for the network or for a client that did not read.
A report whose ``total`` is below the sum of its stages is rejected, and so is one whose stages are
longer than the client waited for the header.

``gateway`` is the entry of a gateway in front of the server, which latspan defines: the
milliseconds for which the gateway held the request before it passed it on. It is a separate report
from the server's. HAProxy 2.6 adds it with ``http-response add-header Server-Timing
"gateway;dur=%Tw"``: ``%Tw`` is the time a request spent in HAProxy's queues.

A header with none of these entries does not report a model's time: content delivery networks send
the header too. Tested against latspan's own middleware and HAProxy 2.6.
Source: W3C Server Timing; HAProxy Configuration Manual, 8.4 "Timing events".
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import in_head, ns, numbers_in
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata, server_timing

_STAGES: Final = ("queue", "model_load", "prefill", "decode")
_GATEWAY: Final = "gateway"
_NETWORK: Final = "send_stream"

_SLACK_MS: Final = 5.0
_SLACK: Final = 0.01
"""Fraction of ``total`` by which the sum of the stages may exceed it, if that is more than 5 ms."""

_IMPOSSIBLE_MS: Final = -1.0
"""Value for a total that is below its parts: the later check rejects the report."""

MARKERS: Final = frozenset({server_timing.HEADER, server_timing.FIELD})
"""Body fields and headers; a response with these timings has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the model's stages in the header or the body, ``None`` if there are none."""
    in_body = _in_body(response)
    times = _entries(_in_header(response) if in_body is None else in_body)
    times.pop(_GATEWAY, None)
    if not any(stage in times for stage in _STAGES):
        return None
    total_ms = times.get(server_timing.TOTAL)
    if total_ms is not None:
        total_ms -= times.get(_NETWORK, 0.0)
    parts_ms = sum(times.get(stage, 0.0) for stage in _STAGES)
    if total_ms is not None and parts_ms - total_ms > max(_SLACK_MS, total_ms * _SLACK):
        total_ms = _IMPOSSIBLE_MS
    is_complete = in_body is not None or not response.streamed
    if not is_complete and (total_ms is None or total_ms >= 0):
        # All of it had passed when the header was sent, also the part of decode that it states.
        total_ms = max(parts_ms, total_ms or 0.0)
    total_ns = ns(total_ms, "ms")
    head_ns, total_ns = in_head(response, total_ns) if in_body is None else (None, total_ns)
    return ReportedTimings(
        system="server_timing",
        queue_ns=ns(times.get("queue"), "ms"),
        model_load_ns=ns(times.get("model_load"), "ms"),
        prefill_ns=ns(times.get("prefill"), "ms"),
        decode_ns=ns(times.get("decode"), "ms") if is_complete else None,
        head_ns=head_ns,
        total_ns=total_ns,
        decode_to_last_token=True,
        raw=numbers_in(times),
    )


def read_gateway(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the time that gateways report for themselves, ``None`` if none does."""
    duration_ms = _entries(_in_header(response)).get(_GATEWAY)
    if duration_ms is None:
        return None
    return ReportedTimings(
        system="gateway", gateway_ns=ns(duration_ms, "ms"), raw=numbers_in({"dur": duration_ms})
    )


def _in_header(response: ResponseMetadata) -> str:
    return response.headers.get(server_timing.HEADER, "")


def _in_body(response: ResponseMetadata) -> str | None:
    for body in reversed(response.bodies):
        header = body.get(server_timing.FIELD)
        if isinstance(header, str):
            return header
    return None


def _entries(header: str) -> dict[str, float]:
    times: dict[str, float] = {}
    for name, duration_ms in server_timing.parsed(header):
        # Entries with the same name are added: two gateways each report their own wait. For other
        # names, neither entry is known to be the right one.
        times[name] = times.get(name, 0.0) + duration_ms
    return times
