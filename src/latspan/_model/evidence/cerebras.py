"""
Cerebras: ``time_info``, in seconds.

``queue_time``, ``prompt_time`` and ``completion_time`` are queue, prefill and decode;
``total_time`` is the total time of the server, more than their sum.

Not tested against the real server.
Source: Cerebras Inference, API reference, "Chat completions", and the response shown there.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import each_ns, in_body, numbers_in
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

_TIMES: Final = ("queue_time", "prompt_time", "completion_time", "total_time")

MARKERS: Final = frozenset({"time_info"})
"""Body fields and headers; a response with Cerebras's times has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the times of Cerebras, or ``None`` if the response does not have all of them."""
    times = in_body(response, "time_info")
    if times is None:
        return None
    queue_ns, prefill_ns, decode_ns, total_ns = each_ns("s", *map(times.get, _TIMES))
    if None in (queue_ns, prefill_ns, decode_ns, total_ns):
        return None
    return ReportedTimings(
        system="cerebras",
        queue_ns=queue_ns,
        prefill_ns=prefill_ns,
        decode_ns=decode_ns,
        total_ns=total_ns,
        raw=numbers_in({name: times[name] for name in _TIMES}),
    )
