"""
The standard ``Server-Timing`` header, as latspan's own servers and others send it.

``queue``, ``model_load``, ``prefill`` and ``decode`` are read, in milliseconds, by latspan's names
for stages; other entries stay on the span as they were reported. The header leaves before the
answer does, so of a stream it holds what had happened by then: a server that waits with it for the
first token says its queue and prefill. ``decode`` is not read of a stream's header: what that says
of it cannot be all. A body may have the same text in the field ``server_timing``, by latspan's own
definition: the last chunk of a stream can tell all of it. That is read in the header's place.

``total`` is all the time since the request came, stages or not. What it holds beyond the four is
the server's too: it authenticates, and tokenizes. Only ``send_stream`` is not: there it waited for
the network, or for a client that did not read.

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

from latspan._evidence._numbers import in_head, ns, numbers_in
from latspan._segments import ReportedTimings
from latspan._wire import Answer, server_timing

__all__ = ["TOLD_BY", "read", "read_gateway"]

_STAGES: Final = ("queue", "model_load", "prefill", "decode")
_GATEWAY: Final = "gateway"
_NETWORK: Final = "send_stream"

TOLD_BY: Final = frozenset({server_timing.HEADER, server_timing.FIELD})
"""What an answer of its has at least one of: fields of a body, or headers."""


def read(answer: Answer) -> ReportedTimings | None:
    """Return the stages of a model's that the header names, ``None`` where it names none."""
    in_body = _in_body(answer)
    said = _entries(_in_header(answer) if in_body is None else in_body)
    said.pop(_GATEWAY, None)
    if not any(stage in said for stage in _STAGES):
        return None
    total_ms = said.get(server_timing.TOTAL)
    if total_ms is not None:
        total_ms -= said.get(_NETWORK, 0.0)
    total_ns = ns(total_ms, "ms")
    head_ns, total_ns = in_head(answer, total_ns) if in_body is None else (None, total_ns)
    tells_the_end = in_body is not None or not answer.streamed
    return ReportedTimings(
        system="server_timing",
        queue_ns=ns(said.get("queue"), "ms"),
        model_load_ns=ns(said.get("model_load"), "ms"),
        prefill_ns=ns(said.get("prefill"), "ms"),
        decode_ns=ns(said.get("decode"), "ms") if tells_the_end else None,
        head_ns=head_ns,
        total_ns=total_ns,
        decode_to_last_token=True,
        raw=numbers_in(said),
    )


def read_gateway(answer: Answer) -> ReportedTimings | None:
    """Return what the gateways on the way say of themselves, ``None`` where none does."""
    said = _entries(_in_header(answer)).get(_GATEWAY)
    if said is None:
        return None
    return ReportedTimings(
        system="gateway", gateway_ns=ns(said, "ms"), raw=numbers_in({"dur": said})
    )


def _in_header(answer: Answer) -> str:
    return answer.headers.get(server_timing.HEADER, "")


def _in_body(answer: Answer) -> str | None:
    for body in reversed(answer.bodies):
        said = body.get(server_timing.FIELD)
        if isinstance(said, str):
            return said
    return None


def _entries(told: str) -> dict[str, float]:
    said: dict[str, float] = {}
    for name, duration_ms in server_timing.parsed(told):
        # Of two entries of one name nobody knows which is meant; two gateways are both.
        said[name] = said.get(name, 0.0) + duration_ms
    return said
