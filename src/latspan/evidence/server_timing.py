"""
The standard ``Server-Timing`` header, as latspan's own servers and others send it.

``queue``, ``model_load``, ``prefill`` and ``decode`` are read, in milliseconds, by latspan's names
for stages; other entries stay on the span as they were reported. The header leaves before the
answer does, so of a stream it holds what had happened by then: a server that waits with it for the
first token says its queue and prefill. ``decode`` is read of an answer in one piece alone: what a
header says of it cannot be all.

A gateway may add entries of its own; where none of the four is there the header says nothing of a
model's time. Exercised against latspan's own middleware.
Source: W3C Server Timing.
"""

from __future__ import annotations

from typing import Final

from latspan.segments import ReportedTimings
from latspan.units import from_unit
from latspan.wire import Answer, server_timing

__all__ = ["read"]

_STAGES: Final = ("queue", "model_load", "prefill", "decode")


def read(answer: Answer) -> ReportedTimings | None:
    """Return the stages of a model's that the header names, ``None`` where it names none."""
    value = answer.headers.get(server_timing.HEADER)
    if not value:
        return None
    reported: dict[str, float] = {}
    for name, duration_ms in server_timing.parsed(value):
        # Of two entries of one name nobody knows which is meant.
        reported[name] = reported.get(name, 0.0) + duration_ms
    if not any(stage in reported for stage in _STAGES):
        return None

    def ns(stage: str) -> int | None:
        return from_unit(reported[stage], "ms") if stage in reported else None

    return ReportedTimings(
        system="server_timing",
        queue_ns=ns("queue"),
        model_load_ns=ns("model_load"),
        prefill_ns=ns("prefill"),
        decode_ns=None if answer.streamed else ns("decode"),
        raw=reported,
    )
