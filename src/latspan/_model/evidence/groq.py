"""
Groq: times in ``usage``, in seconds.

``prompt_time`` is the prefill, ``completion_time`` the decode, ``queue_time`` the wait before
them. ``total_time`` is the sum of prompt and completion, without the queue. A stream has the same
``usage`` in ``x_groq`` of its last chunk.

Not tested against the real server.
Source: Groq API reference and documentation, console.groq.com/docs, and the responses shown there;
``groq`` package, ``types/completion_usage.py``.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import in_body, ns, number, numbers_in
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

_REQUIRED: Final = ("prompt_time", "completion_time", "total_time")
_TIMES: Final = (*_REQUIRED, "queue_time")

MARKERS: Final = frozenset({"x_groq", "usage"})
"""Body fields and headers; a response with Groq's times has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return Groq's times, or ``None`` if the usage does not have the required ones."""
    for path in (("x_groq", "usage"), ("usage",)):
        usage = in_body(response, *path)
        if usage is None or "total_time" not in usage:
            continue
        times = {name: value for name in _TIMES if (value := number(usage.get(name))) is not None}
        if any(name not in times for name in _REQUIRED):
            continue
        queued = times.get("queue_time")
        return ReportedTimings(
            system="groq",
            queue_ns=ns(queued, "s"),
            prefill_ns=ns(times["prompt_time"], "s"),
            decode_ns=ns(times["completion_time"], "s"),
            total_ns=None if queued is None else ns(queued + times["total_time"], "s"),
            raw=numbers_in(times),
        )
    return None
