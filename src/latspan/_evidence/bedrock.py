"""
Amazon Bedrock: how long the invocation took, in milliseconds.

``Converse`` says ``metrics.latencyMs``, and its stream the same in the event ``metadata``. A
stream of ``InvokeModel`` says ``invocationLatency`` in ``amazon-bedrock-invocationMetrics`` of its
last event, ``InvokeModel`` without a stream the header ``x-amzn-bedrock-invocation-latency``. Each
is all of the service's time. ``firstByteLatency`` holds queue and prefill undivided, so it stays
as it was reported.

Could not be exercised against the real service.
Source: Amazon Bedrock API reference, ``ConverseMetrics`` and ``ConverseStreamMetrics``; of the
metrics of invocations there is no definition, their names are from answers that others recorded.
"""

from __future__ import annotations

from typing import Final

from latspan._evidence._numbers import in_body, in_head, in_header, ns, number, numbers_in
from latspan._segments import ReportedTimings
from latspan._wire import Answer

__all__ = ["TOLD_BY", "read"]

_HEADER: Final = "x-amzn-bedrock-invocation-latency"
_IN_BODIES: Final = (
    (("metrics",), "latencyMs"),
    (("metadata", "metrics"), "latencyMs"),
    (("amazon-bedrock-invocationMetrics",), "invocationLatency"),
)
_TIMES: Final = ("latencyMs", "invocationLatency", "firstByteLatency")

TOLD_BY: Final = frozenset({_HEADER, *(path[0] for path, _ in _IN_BODIES)})
"""What an answer of its has at least one of: fields of a body, or headers."""


def read(answer: Answer) -> ReportedTimings | None:
    """Return how long the service took, or ``None`` where the answer does not say it."""
    for path, name in _IN_BODIES:
        said = in_body(answer, *path)
        if said is not None and number(said.get(name)) is not None:
            return ReportedTimings(
                system="bedrock",
                total_ns=ns(said[name], "ms"),
                raw=numbers_in({each: said[each] for each in _TIMES if each in said}),
            )
    latency_ms = in_header(answer, _HEADER)
    if latency_ms is None:
        return None
    head_ns, total_ns = in_head(answer, ns(latency_ms, "ms"))
    return ReportedTimings(
        system="bedrock", head_ns=head_ns, total_ns=total_ns, raw={_HEADER: latency_ms}
    )
