"""
Amazon Bedrock: duration of the invocation, in milliseconds.

``Converse`` returns ``metrics.latencyMs``, and its stream has the same field in the event
``metadata``. A stream of ``InvokeModel`` has ``invocationLatency`` in
``amazon-bedrock-invocationMetrics`` of its last event, and ``InvokeModel`` without a stream sends
the header ``x-amzn-bedrock-invocation-latency``. Each is the total time of the service.
``firstByteLatency`` is the sum of queue and prefill, so it is only recorded as reported.

Not tested against the real service.
Source: Amazon Bedrock API reference, ``ConverseMetrics`` and ``ConverseStreamMetrics``. The
invocation metrics are not documented; their names are from responses that others recorded.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import in_body, in_head, in_header, ns, number, numbers_in
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

_HEADER: Final = "x-amzn-bedrock-invocation-latency"
_IN_BODIES: Final = (
    (("metrics",), "latencyMs"),
    (("metadata", "metrics"), "latencyMs"),
    (("amazon-bedrock-invocationMetrics",), "invocationLatency"),
)
_TIMES: Final = ("latencyMs", "invocationLatency", "firstByteLatency")

MARKERS: Final = frozenset({_HEADER, *(path[0] for path, _ in _IN_BODIES)})
"""Body fields and headers; a response with Bedrock's latency has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the time of the service, or ``None`` if the response does not report it."""
    for path, name in _IN_BODIES:
        times = in_body(response, *path)
        if times is not None and number(times.get(name)) is not None:
            return ReportedTimings(
                system="bedrock",
                total_ns=ns(times[name], "ms"),
                raw=numbers_in({each: times[each] for each in _TIMES if each in times}),
            )
    latency_ms = in_header(response, _HEADER)
    if latency_ms is None:
        return None
    head_ns, total_ns = in_head(response, ns(latency_ms, "ms"))
    return ReportedTimings(
        system="bedrock", head_ns=head_ns, total_ns=total_ns, raw={_HEADER: latency_ms}
    )
