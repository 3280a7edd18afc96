"""
The standard ``Server-Timing`` header, as latspan's own servers and others send it.

``queue``, ``model_load``, ``prefill`` and ``decode`` are read, in milliseconds, by latspan's names
for stages; other entries stay on the span as they were reported. The header leaves before the
answer does, so of a stream it holds what had happened by then: a server that waits with it for the
first token says its queue and prefill. ``decode`` is read of an answer in one piece alone: what a
header says of it cannot be all.

``gateway`` is the entry of whoever stands before the server, by latspan's own definition: the
milliseconds for which it held the request before it passed it on. It is a report of its own,
apart from the server's. HAProxy 2.6 adds it with ``http-response add-header Server-Timing
"gateway;dur=%Tw"``: ``%Tw`` is the time a request spent in HAProxy's queues.

Where none of these is there the header says nothing of a model's time: content delivery networks
send it too. Exercised against latspan's own middleware and HAProxy 2.6.
Source: W3C Server Timing; HAProxy Configuration Manual, 8.4 "Timing events".
"""

from __future__ import annotations

from typing import Final

from latspan.evidence._numbers import ns, numbers_in
from latspan.segments import ReportedTimings
from latspan.wire import Answer, server_timing

__all__ = ["read", "read_gateway"]

_STAGES: Final = ("queue", "model_load", "prefill", "decode")
_GATEWAY: Final = "gateway"


def read(answer: Answer) -> ReportedTimings | None:
    """Return the stages of a model's that the header names, ``None`` where it names none."""
    said = _entries(answer)
    said.pop(_GATEWAY, None)
    if not any(stage in said for stage in _STAGES):
        return None
    return ReportedTimings(
        system="server_timing",
        queue_ns=ns(said.get("queue"), "ms"),
        model_load_ns=ns(said.get("model_load"), "ms"),
        prefill_ns=ns(said.get("prefill"), "ms"),
        decode_ns=None if answer.streamed else ns(said.get("decode"), "ms"),
        raw=numbers_in(said),
    )


def read_gateway(answer: Answer) -> ReportedTimings | None:
    """Return what the gateways on the way say of themselves, ``None`` where none does."""
    said = _entries(answer).get(_GATEWAY)
    if said is None:
        return None
    return ReportedTimings(
        system="gateway", gateway_ns=ns(said, "ms"), raw=numbers_in({"dur": said})
    )


def _entries(answer: Answer) -> dict[str, float]:
    said: dict[str, float] = {}
    for name, duration_ms in server_timing.parsed(answer.headers.get(server_timing.HEADER, "")):
        # Of two entries of one name nobody knows which is meant; two gateways are both.
        said[name] = said.get(name, 0.0) + duration_ms
    return said
