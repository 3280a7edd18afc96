"""
Hugging Face's text-generation-inference: headers, in whole milliseconds.

``x-validation-time`` is the time from the request to its place in the queue, ``x-queue-time`` the
time from there to its first batch, and ``x-inference-time`` the sum of prefill and decode.
``x-total-time`` is the total. ``x-compute-time`` is the total again, in seconds in later versions
and in milliseconds in earlier ones, so it is not read. Streams have none of these headers. LoRAX
sends the same headers.

Not tested against the real server.
Source: text-generation-inference, ``router/src/server.rs``.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import in_head, in_header, ns
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

_TIMES: Final = ("x-total-time", "x-validation-time", "x-queue-time", "x-inference-time")

MARKERS: Final = frozenset({"x-inference-time"})
"""Body fields and headers; a response with the router's times has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the router's times, or ``None`` if the response does not have all its headers."""
    if "x-inference-time" not in response.headers:
        return None
    times = {name: value for name in _TIMES if (value := in_header(response, name)) is not None}
    if len(times) < len(_TIMES):
        return None
    head_ns, total_ns = in_head(response, ns(times["x-total-time"], "ms"))
    return ReportedTimings(
        system="tgi",
        queue_ns=ns(times["x-queue-time"], "ms"),
        head_ns=head_ns,
        total_ns=total_ns,
        raw=times,
    )
